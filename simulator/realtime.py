"""Driver that runs one engine in real time on an asyncio event loop, and passes on its events when they are due.

The driver has no task. A timer of the event loop fires at the engine's next event. A speed of 0 or infinity means as
fast as possible: the timer fires at once, and other tasks get a turn between two events.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence

from engine_model.engine import Engine, EngineError, EngineEvent, EngineLoad, Finished
from engine_model.request import EngineRequest


class GenerationAborted(Exception):
    """Error: the generation was dropped because the client disconnected or the server is closing."""


class Generation:
    """Events of requests that were submitted together, in order of time."""

    def __init__(self, request_ids: Sequence[str], abort: Callable[[Sequence[str]], None]) -> None:
        self._unfinished = dict.fromkeys(request_ids)
        self._abort = abort
        self._arrived: list[EngineEvent] = []
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None

    @property
    def is_finished(self) -> bool:
        """Whether all requests of the generation have finished and all their events have been returned."""
        return not self._unfinished and not self._arrived

    async def events(self) -> list[EngineEvent]:
        """Return the events since the last call. Wait for at least one. Call this method until `is_finished` is true.

        Raises:
            GenerationAborted: if `abort` was called.
            Exception: the exception that was passed to `fail`.
        """
        while not self._arrived and self._failure is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._failure is not None:
            raise self._failure
        events, self._arrived = self._arrived, []
        return events

    def abort(self) -> None:
        """Drop the unfinished requests of the generation at once. A repeated or late call has no effect."""
        self.fail(GenerationAborted())

    def fail(self, failure: Exception) -> None:
        """Drop the unfinished requests and raise *failure* for waiting callers. Only the first failure counts."""
        if self.is_finished or self._failure is not None:
            return
        self._failure = failure
        self._abort(tuple(self._unfinished))
        self._wake()

    def deliver(self, event: EngineEvent) -> None:
        self._arrived.append(event)
        if isinstance(event, Finished):
            del self._unfinished[event.request_id]
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class EngineClock:
    """Clock of an engine, which runs *rate* times as fast as the wall clock. The rate can change."""

    def __init__(self, wall: Callable[[], float], rate: float) -> None:
        self._wall = wall
        self._rate = rate
        self._wall_origin = wall()
        self._origin = 0.0

    def now(self) -> float:
        return self._origin + (self._wall() - self._wall_origin) * self._rate

    def wall_s_until(self, at: float) -> float:
        """Return the wall-clock seconds until the engine time *at*, or 0 if that time has passed."""
        return max(0.0, at - self.now()) / self._rate

    def set_rate(self, rate: float) -> None:
        self._origin, self._wall_origin = self.now(), self._wall()
        self._rate = rate


class RealtimeEngine:
    """Driver that runs *engine* at *speed* engine seconds per second of the clock *wall*."""

    def __init__(self, engine: Engine, *, speed: float = 1.0, wall: Callable[[], float] = time.monotonic) -> None:
        if not speed >= 0:
            raise ValueError(f"speed must not be negative, got {speed}")
        self._engine = engine
        self._speed = speed
        self._clock = EngineClock(wall, speed) if 0 < speed < math.inf else None
        self._reached = 0.0  # the engine's time, where no clock drives it
        self._generations: dict[str, Generation] = {}
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._is_stuck = False

    def submit(self, requests: Sequence[EngineRequest]) -> Generation:
        """Submit all of *requests* or none of them. Raises the errors of `Engine.submit`."""
        now = self._now()
        generation = Generation([request.id for request in requests], self._abort)
        submitted: list[str] = []
        try:
            for request in requests:
                self._engine.submit(request, now)
                submitted.append(request.id)
        except EngineError:
            self._abort(submitted)
            raise
        self._generations.update(dict.fromkeys(submitted, generation))
        self._arm()
        return generation

    def wake(self) -> None:
        """Try to start waiting requests (see `Engine.wake`)."""
        self._engine.wake(self._now())
        self._arm()

    def load(self) -> EngineLoad:
        return self._engine.load(self._now())

    def slow_down(self, factor: float) -> None:
        """Slow all work down by *factor*, compared with the configured speed. At unlimited speed, only infinity has an
        effect.

        With infinity the engine stands still at any speed: it accepts requests and computes nothing.
        """
        self._is_stuck = factor == math.inf
        if self._clock is not None:
            self._clock.set_rate(self._speed / factor)
        self._arm()

    def fail(self, failure: Exception) -> None:
        """Drop all generations of the engine. Each of them raises *failure*."""
        for generation in set(self._generations.values()):
            generation.fail(failure)

    def close(self) -> None:
        """Abort all generations of the engine and stop the timer."""
        self.fail(GenerationAborted())
        self._disarm()

    def _now(self) -> float:
        return self._clock.now() if self._clock is not None else self._reached

    def _abort(self, request_ids: Sequence[str]) -> None:
        for request_id in request_ids:
            self._generations.pop(request_id, None)
            self._engine.abort(request_id, self._now())
        self._arm()

    def _arm(self) -> None:
        self._disarm()
        at = self._engine.next_event_at()
        if at is None or self._is_stuck:
            return
        loop = asyncio.get_running_loop()
        if self._clock is None:
            self._timer = loop.call_soon(self._fire)
        else:
            self._timer = loop.call_later(self._clock.wall_s_until(at), self._fire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        if self._clock is None:
            self._reached = max(self._reached, self._engine.next_event_at() or 0.0)
        for event in self._engine.advance(self._now()):
            generation = self._generations.get(event.request_id)
            if generation is not None:  # else aborted
                generation.deliver(event)
                if isinstance(event, Finished):
                    del self._generations[event.request_id]
        self._arm()
