"""Workers that are to get no more requests: on whose word, and when the long streams that they have go on elsewhere.

1. An operator and the settings have a word each. A worker drains while either says so, and neither takes back what the
   other said.
2. Requests that a draining worker has go on there. After a while those streams that can be continued are handed over,
   if there is a worker to take them; all others end in peace.
3. An operator's word is forgotten with the worker: when it leaves the settings, moves to another address, or another
   pod has its name.
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

AGAIN_S = 5.0
"""Time between two attempts to move the streams that are left on a worker: there may be no other worker yet."""


@dataclass(slots=True)
class _Drain:
    """One draining worker of one model."""

    url: str
    uid: str | None
    due: dict[Word, float | None] = field(default_factory=dict)
    """Time at which streams are handed over, by who wants the worker to drain; None: never."""
    next_at: float | None = None
    """Time of the next hand-over."""

    def plan(self) -> None:
        self.next_at = min((due for due in self.due.values() if due is not None), default=None)


class Draining:
    """Knows which workers of *models* drain, and when their streams are handed over.

    *hand_over_after_s* is the default; None: nothing is handed over.
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

    def drain(self, model: Model, worker: WorkerId, *, hand_over_after_s: float | UnsetType | None = UNSET) -> None:
        """Drain *worker* at an operator's request. A repeated call restarts the time until the hand-over.

        *hand_over_after_s* is for this time; None: never, UNSET: the default.
        """
        self._say(model, worker, "operator", hand_over_after_s)

    def undrain(self, model: Model, worker: WorkerId) -> None:
        """Stop draining for the operator. The worker goes on draining if the settings want it."""
        self._take_back(model.name, worker, "operator")
        self._apply(model)

    def declare(self, models: Sequence[ModelWorkers]) -> None:
        """Drain those workers of *models* that are configured or found to drain; the fleets have them already."""
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
        """Return who wants *worker* to drain; empty: it does not drain."""
        drain = self._drains.get((model, worker))
        return () if drain is None else tuple(sorted(drain.due))

    def hand_over_in_s(self, model: str, worker: WorkerId) -> float | None:
        """Return the seconds until its streams are handed over; None: they are not, or it has none."""
        drain = self._drains.get((model, worker))
        return None if drain is None or drain.next_at is None else max(0.0, drain.next_at - self._clock())

    def turn(self) -> float | None:
        """Hand over what is due; return the seconds until the next hand-over, None without one."""
        now = self._clock()
        for (name, worker), drain in self._drains.items():
            if drain.next_at is not None and drain.next_at <= now:
                drain.next_at = now + AGAIN_S if _is_left(self._models.get(name), worker) else None
        return min((drain.next_at - now for drain in self._drains.values() if drain.next_at is not None), default=None)

    async def run(self) -> None:
        """Hand over streams when it is time, until canceled."""
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
        """Update the fleet of *model*."""
        for worker in model.fleet:
            is_wanted = (model.name, worker.id) in self._drains
            if worker.is_draining != is_wanted:
                model.set_draining(worker.id, draining=is_wanted)


def _is_left(model: Model | None, worker: WorkerId) -> bool:
    """Hand over the streams of *worker*; return whether it still has requests."""
    if model is None or model.fleet.bookings.own_in_flight(worker) == 0:
        return False
    count = model.hand_over(worker)
    if count:
        _log.info("model %s: worker %s is draining, %d of its streams move to other workers", model.name, worker, count)
    return True
