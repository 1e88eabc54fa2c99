"""Driver for several engines in virtual time. The caller advances the clock, which makes replays deterministic."""

from collections.abc import Mapping

from engine_model.engine import Engine, EngineEvent, EngineLoad
from engine_model.request import EngineRequest


class VirtualFleet:
    """Group of engines by worker name. A replay calls `advance` at `next_event_at`, and `submit` between these calls.

    Events at the same time are ordered by the order in which the workers were given. Calls are linear in the number of
    workers.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = dict(engines)
        self._next_at: dict[str, float] = {}

    @property
    def workers(self) -> tuple[str, ...]:
        return tuple(self._engines)

    def submit(self, worker: str, request: EngineRequest, now: float) -> None:
        """Submit *request* to *worker*. Raises the errors of `Engine.submit`, and `KeyError` for an unknown worker."""
        self._engines[worker].submit(request, now)
        self._note(worker)

    def abort(self, worker: str, request_id: str, now: float) -> None:
        self._engines[worker].abort(request_id, now)
        self._note(worker)

    def next_event_at(self) -> float | None:
        """Return the time of the next event of any engine, or None if all engines are idle."""
        return min(self._next_at.values(), default=None)

    def advance(self, now: float) -> list[tuple[str, EngineEvent]]:
        """Process all events of all engines that are due at *now*, and return them in order of time."""
        events: list[tuple[str, EngineEvent]] = []
        for worker, engine in self._engines.items():
            if self._next_at.get(worker, now + 1) <= now:
                events.extend((worker, event) for event in engine.advance(now))
                self._note(worker)
        events.sort(key=lambda entry: entry[1].at)
        return events

    def load(self, worker: str, now: float) -> EngineLoad:
        return self._engines[worker].load(now)

    def _note(self, worker: str) -> None:
        at = self._engines[worker].next_event_at()
        if at is None:
            self._next_at.pop(worker, None)
        else:
            self._next_at[worker] = at
