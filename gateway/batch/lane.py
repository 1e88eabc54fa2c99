"""The lane of batches: which worker runs the next line, and when the line begins.

A line first gets a place at a worker, so that the worker's next line can be chosen. It then waits until the gate lets
it begin there, and until no request waits for a worker of its model. Lines of a batch that is near its end are raised:
they only need a place. In the queue of the model, lines have a priority class below all others. Other lines can be
interrupted while a worker computes their prompts, see `gateway.batch.interruptions`.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from cache_index import WorkerId
from gateway.batch.counters import BatchCounters
from gateway.batch.gate import Gate
from gateway.batch.interruptions import LOOK_S, Interrupted, Prefill
from gateway.models.model import Model
from gateway.models.registry import Models
from routing.worker import Worker


@dataclass(eq=False, slots=True)
class Place:
    """Place of one line in the lane."""

    model: str
    """Configured name of the model or route, or an empty string if it is unknown."""
    worker: WorkerId | None
    """Worker that runs the line, or None if the gateway chooses one, or if none is ready."""
    tokens: float = 0.0
    has_begun: bool = False
    prefill: Prefill | None = None
    """Computation of the line's prompt if the line can be interrupted, or None."""


class Lane:
    """Gate through which the lines of all batches pass. *per_worker* is the number of lines in flight per worker.

    *interrupts* returns whether lines for a model can be interrupted.
    """

    def __init__(
        self,
        models: Models,
        *,
        per_worker: int,
        max_cache_share: float = 1.0,
        interrupts: Callable[[str], bool] = lambda _model: False,
        counters: BatchCounters | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._models = models
        self._per_worker = per_worker
        self._max_cache_share = max_cache_share
        self._interrupts = interrupts
        self._gates: dict[str, Gate] = {}
        """Gates by model."""
        self._sleep = sleep
        self._turns: WeakValueDictionary[tuple[tuple[str, ...], bool], asyncio.Lock] = WeakValueDictionary()
        """Turn of the line that may get the next place, by models: only this line checks the workers."""
        self._raised: Counter[str] = Counter()
        """Raised lines that wait for a place, by model."""
        self._held: set[tuple[str, WorkerId]] = set()
        """Models and workers with a line that has a place and has not begun."""
        self._elsewhere: Counter[str] = Counter()
        """Lines with a place without a worker, by model."""
        self._in_flight = (counters or BatchCounters()).in_flight

    @property
    def slots(self) -> int:
        """Number of lines that all ready workers together may have in flight."""
        return sum(self._limit([model]) for model in self._models)

    async def enter(self, asked: Sequence[str], *, is_raised: bool = False) -> Place:
        """Wait for a place for a line of one of the models *asked*, and return it. Lines wait in turn.

        Call `begin` before the line begins, and `leave` when it has ended.
        """
        names = tuple(dict.fromkeys(map(self._known_name, asked)))
        turn = self._turns.setdefault((names, is_raised), asyncio.Lock())
        raised = names if is_raised else ()
        self._raised.update(raised)
        try:
            async with turn:
                while (place := self._free_place(names, is_raised=is_raised)) is None:
                    await self._sleep(LOOK_S)
                self._hold(place)
        finally:
            self._raised.subtract(raised)
        return place

    async def begin(
        self,
        place: Place,
        *,
        step_bytes: float,
        prompt_bytes: int,
        answer_tokens: float = 0.0,
        is_raised: bool = False,
        yields: bool = False,
    ) -> None:
        """Wait until a line may begin at *place*.

        Its prompt has *prompt_bytes* bytes. *step_bytes* of them are not in the cache of the worker. *answer_tokens*
        is the expected length of the answer. *yields* is whether the line may be interrupted.
        """
        yields = yields and not is_raised and self._interrupts(place.model)
        while (worker := self._worker(place)) is not None:
            fleet = self._gated(place.model)[0].fleet
            ratio = fleet.bytes_per_token.ratio
            gate = self._gate(place.model)
            place.tokens = (step_bytes if gate.lines(worker.id) else prompt_bytes) / ratio + answer_tokens
            step_tokens = step_bytes / ratio
            if gate.has_place(worker) if is_raised else self._may_begin(place, worker, step_tokens, yields=yields):
                if yields:
                    place.prefill = gate.prefill(worker, step_tokens, self._now(place.model))
                break
            await self._sleep(LOOK_S)
        else:
            if place.worker is not None:  # it cannot answer any more
                self._held.discard((place.model, place.worker))
                place.worker = None
                self._hold(place)
        if place.worker is not None:
            self._held.discard((place.model, place.worker))
            self._gate(place.model).begin(place.worker, place.tokens)
        place.has_begun = True
        self._in_flight[place.model] += 1

    def leave(self, place: Place) -> None:
        """Give back a place, whether or not its line has begun."""
        self._in_flight[place.model] -= place.has_begun
        if place.worker is None:
            self._elsewhere[place.model] -= 1
        elif place.has_begun:
            self._gate(place.model).end(place.worker, place.tokens)
        else:
            self._held.discard((place.model, place.worker))

    def may_interrupt(self, place: Place) -> bool:
        """Return whether the line at *place* can be interrupted now or later."""
        return place.prefill is not None and self._now(place.model) < place.prefill.ends_at

    def is_in_the_way(self, place: Place) -> bool:
        """Return whether the line at *place* has to be interrupted, because another request needs its worker."""
        model = self._models.get(place.model)
        if model is None or place.prefill is None:
            return False
        queue = model.dispatch_queue
        return place.prefill.is_in_the_way(queue.now, others_wait=queue.others_wait)

    def interrupted(self, place: Place, step_bytes: float, count: int) -> Interrupted:
        """Note that the line at *place* is interrupted, the *count*-th time, and return it.

        *step_bytes* are the bytes of its prompt that were not in the cache of the worker when it began.
        """
        assert place.prefill is not None, "the line yields"
        self._gate(place.model).interrupt(place.prefill.worker.id)
        return place.prefill.interrupted(step_bytes, count, self._now(place.model))

    def serves(self, place: Place, asked: str) -> bool:
        """Return whether a line for the model *asked* can run at *place*."""
        return self._known_name(asked) == place.model

    def _now(self, name: str) -> float:
        """Return the time of the clock of the model *name*, or infinity if the model is not configured any more."""
        model = self._models.get(name)
        return math.inf if model is None else model.dispatch_queue.now

    def _may_begin(self, place: Place, worker: Worker, step_tokens: float, *, yields: bool) -> bool:
        model = self._gated(place.model)[0]
        queue = model.dispatch_queue
        return not queue.waiting and self._gate(place.model).may_begin(
            model.fleet, worker, step_tokens=step_tokens, tokens=place.tokens, now=queue.now, yields=yields
        )

    def _hold(self, place: Place) -> None:
        if place.worker is None:
            self._elsewhere[place.model] += 1
        else:
            self._held.add((place.model, place.worker))

    def _free_place(self, names: Sequence[str], *, is_raised: bool) -> Place | None:
        for name in names:
            if is_raised or not self._raised[name]:
                place = self._place_at(name, self._gated(name))
                if place is not None:
                    return place
        return None

    def _place_at(self, name: str, models: list[Model]) -> Place | None:
        workers = _answering(models[0]) if len(models) == 1 and self._models.get(name) is not None else []
        if workers:
            gate = self._gate(name)
            free = [each for each in workers if (name, each.id) not in self._held and gate.has_place(each)]
            best = min(free, key=lambda each: gate.lines(each.id), default=None)
            return None if best is None else Place(name, best.id)
        is_busy = any(model.dispatch_queue.waiting for model in models)
        return None if is_busy or self._elsewhere[name] >= self._limit(models) else Place(name, None)

    def _gate(self, model: str) -> Gate:
        gate = self._gates.get(model)
        if gate is None:
            gate = self._gates[model] = Gate(per_worker=self._per_worker, max_cache_share=self._max_cache_share)
        return gate

    def _worker(self, place: Place) -> Worker | None:
        """Return the worker of *place*, or None if it has none, or if its worker cannot answer any more."""
        model = self._models.get(place.model)
        for worker in () if model is None else model.fleet:
            if worker.id == place.worker:
                return worker if worker.is_answering else None
        return None

    def _known_name(self, asked: str) -> str:
        """Return the configured name, or an empty string for an unknown model: no worker is needed to refuse it."""
        name = self._models.configured_name(asked)
        return name if self._gated(name) else ""

    def _gated(self, name: str) -> list[Model]:
        """Return the models that can answer a line for *name*. A route can choose any model."""
        model = self._models.get(name)
        if model is not None:
            return [model]
        return [] if self._models.route(name) is None else list(self._models)

    def _limit(self, models: list[Model]) -> int:
        """Return how many lines may be in flight. Without a ready worker, one line tries fallbacks."""
        return max(1, self._per_worker * sum(len(_answering(model)) for model in models))


def _answering(model: Model) -> list[Worker]:
    return [worker for worker in model.fleet if worker.is_answering]
