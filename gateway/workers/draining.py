"""Draining of workers. A worker that is being drained gets no new requests, and its long streams move to other workers.

1. An operator and the settings can each request draining. A worker drains as long as either of them requests it.
2. Requests that a draining worker already has continue on it. After a delay, streams that can be continued elsewhere
   are handed over if another worker can take them. All other streams run to completion.
3. An operator's request ends when the worker leaves the settings, moves to another address, or is replaced by a pod
   with the same name.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from msgspec import UNSET, UnsetType

from cache_index import WorkerId
from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.workers.worker_spec import ModelWorkers

_log = logging.getLogger(__name__)

Word = Literal["operator", "settings"]

OnOperator = Callable[[str, WorkerId, bool, float | UnsetType | None], object]
"""Function that gets the model, the worker, whether it drains, and the delay before the handover."""

AGAIN_S = 5.0
"""Seconds between two attempts to hand over the streams of a draining worker. At first, there might be no other."""


@dataclass(slots=True)
class _Drain:
    url: str
    uid: str | None
    due: dict[Word, float | None] = field(default_factory=dict)
    """Times at which streams are handed over, by who requested the draining. None means that this never happens."""
    next_at: float | None = None
    """Time of the next attempt to hand over streams, or None if no attempt is planned."""

    def plan(self) -> None:
        self.next_at = min((due for due in self.due.values() if due is not None), default=None)


class Draining:
    """Set of the workers that are being drained. It hands over their streams when the time comes.

    *hand_over_after_s* is the default delay before the handover. None disables the handover.
    """

    def __init__(
        self,
        models: Models,
        *,
        hand_over_after_s: float | None,
        clock: Callable[[], float],
    ) -> None:
        self._models = models
        self._hand_over_after_s = hand_over_after_s
        self._clock = clock
        self._drains: dict[tuple[str, WorkerId], _Drain] = {}
        self._uids: dict[tuple[str, WorkerId], str | None] = {}
        self._changed = asyncio.Event()
        self._on_operator: OnOperator = lambda *_: None
        self.is_shared = False
        """Whether other processes of this gateway drain the same workers."""

    def share(self, on_operator: OnOperator) -> None:
        """Call *on_operator* with each request of an operator, so that other processes can drain the same workers."""
        self._on_operator = on_operator
        self.is_shared = True

    def drain(self, model: Model, worker: WorkerId, *, hand_over_after_s: float | UnsetType | None = UNSET) -> None:
        """Drain *worker* because an operator requested it. A repeated call restarts the delay before the handover.

        *hand_over_after_s* overrides the default delay. None means that its streams are never handed over.
        """
        self._say(model, worker, "operator", hand_over_after_s)
        self._on_operator(model.name, worker, True, hand_over_after_s)

    def undrain(self, model: Model, worker: WorkerId) -> None:
        """Cancel the operator's request to drain *worker*. It keeps draining if the settings also request this."""
        self._take_back(model.name, worker, "operator")
        self._apply(model)
        self._on_operator(model.name, worker, False, UNSET)

    def follow(self, name: str, worker: WorkerId, *, drains: bool, hand_over_after_s: float | UnsetType | None) -> None:
        """Drain *worker* of the model *name*, or stop this, because another process did so."""
        model = self._models.get(name)
        if model is None or worker not in model.workers:
            return
        if drains:
            self._say(model, worker, "operator", hand_over_after_s)
        else:
            self._take_back(name, worker, "operator")
            self._apply(model)

    def declare(self, models: Sequence[ModelWorkers]) -> None:
        """Start or stop draining workers according to *models*. The fleets must already contain these workers."""
        self._uids = {(model.name, WorkerId(worker.id)): worker.uid for model in models for worker in model.workers}
        self._forget_who_left()
        declared = {
            (model.name, WorkerId(worker.id)) for model in models for worker in model.workers if worker.draining
        }
        for name, worker in [key for key, drain in self._drains.items() if "settings" in drain.due]:
            if (name, worker) not in declared:
                self._take_back(name, worker, "settings")
        for model in self._models:
            for worker in model.workers:
                if (model.name, worker) in declared and "settings" not in self.words(model.name, worker):
                    self._say(model, worker, "settings", UNSET)
            self._apply(model)

    def words(self, model: str, worker: WorkerId) -> tuple[Word, ...]:
        """Return who requested that *worker* is drained. If it is not drained, the tuple is empty."""
        drain = self._drains.get((model, worker))
        return () if drain is None else tuple(sorted(drain.due))

    def hand_over_in_s(self, model: str, worker: WorkerId) -> float | None:
        """Return the seconds until the streams of *worker* are handed over, or None if no handover is planned."""
        drain = self._drains.get((model, worker))
        return None if drain is None or drain.next_at is None else max(0.0, drain.next_at - self._clock())

    def turn(self) -> float | None:
        """Hand over the streams that are due. Return the seconds until the next handover, or None if none follows."""
        now = self._clock()
        for (name, worker), drain in self._drains.items():
            if drain.next_at is not None and drain.next_at <= now:
                drain.next_at = now + AGAIN_S if _is_left(self._models.get(name), worker) else None
        return min((drain.next_at - now for drain in self._drains.values() if drain.next_at is not None), default=None)

    async def run(self) -> None:
        """Hand over streams when they are due, until canceled."""
        while True:
            self._changed.clear()
            wait_s = self.turn()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    def _say(self, model: Model, worker: WorkerId, word: Word, hand_over_after_s: float | UnsetType | None) -> None:
        after_s = self._hand_over_after_s if hand_over_after_s is UNSET else hand_over_after_s
        key = (model.name, worker)
        drain = self._drains.setdefault(key, _Drain(model.workers[worker].url, self._uids.get(key)))
        drain.due[word] = None if after_s is None else self._clock() + after_s
        drain.plan()
        self._apply(model)
        self._changed.set()

    def _take_back(self, model: str, worker: WorkerId, word: Word) -> None:
        drain = self._drains.get((model, worker))
        if drain is None:
            return
        drain.due.pop(word, None)
        drain.plan()
        if not drain.due:
            del self._drains[model, worker]

    def _forget_who_left(self) -> None:
        there = {
            (model.name, worker): (backend.url, self._uids.get((model.name, worker)))
            for model in self._models
            for worker, backend in model.workers.items()
        }
        self._drains = {key: drain for key, drain in self._drains.items() if there.get(key) == (drain.url, drain.uid)}

    def _apply(self, model: Model) -> None:
        """Set the draining state of every worker in the fleet for *model*."""
        for worker in model.fleet:
            is_wanted = (model.name, worker.id) in self._drains
            if worker.is_draining != is_wanted:
                model.set_draining(worker.id, draining=is_wanted)


def _is_left(model: Model | None, worker: WorkerId) -> bool:
    """Hand over the streams of *worker*. Return whether the worker still has requests."""
    if model is None or model.fleet.bookings.own_in_flight(worker) == 0:
        return False
    count = model.hand_over(worker)
    if count:
        _log.info("model %s: worker %s is draining, %d of its streams move to other workers", model.name, worker, count)
    return True
