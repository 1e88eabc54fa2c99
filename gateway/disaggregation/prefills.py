"""The prefill workers that one request asks, each once, and what is booked on them."""

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from gateway.attempt import OVERLOADED, Attempt
from gateway.backends.backend import Call, WorkerBackend
from gateway.disaggregation.division import Division
from gateway.errors import ConnectFailed, UpstreamError, UpstreamRefused, UpstreamTimeout
from gateway.exchange import Exchange
from gateway.failed_workers import FailedWorkers
from gateway.model import Model
from gateway.persistence import Persistence
from gateway.tracing.span import Span
from gateway.usage import Usage
from routing.booking import Booking, Ending, Outcome
from routing.candidate import Candidate
from routing.reason import reason_of
from routing.request import Request

MOST_PREFILLS = 3
"""Workers that may compute one prompt in vain: after them it is computed where it is answered, if that is possible."""

Asked = Callable[[Call, bool], Coroutine[Any, Any, Attempt]]
"""Asks the decode worker: the call as it gets it, and whether its prompt comes from elsewhere."""


class Place:
    """What a prefill worker has been given to do; released with its outcome at the end of a ``with`` block."""

    def __init__(self, model: Model, booking: Booking, clock: Callable[[], float], span: Span | None = None) -> None:
        """*span* is what its trace, if it has one, tells of it."""
        self._span = span
        self.booking = booking
        self._model = model
        self._clock = clock
        self._outcome = Outcome(Ending.ABORTED)
        self._is_released = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give it back, as what was told last of its outcome; aborted, if nothing was. Only the first call counts."""
        if self._is_released:
            return
        self._is_released = True
        self._model.fleet.release(self.booking, self._outcome, self._clock())
        self._model.turnstile.turn()
        if self._span is not None:
            self._span.attributes["warmgate.outcome"] = self._outcome.ending.value
            self._span.end(self._clock())

    def began(self) -> None:
        """The prompt is computed."""
        self._model.fleet.first_byte(self.booking, self._clock())
        self._model.turnstile.turn()

    def answered(self, usage: Usage | None) -> None:
        """All of the answer is there. The one token that it has is not how long answers are."""
        prompt, cached = (None, None) if usage is None else (usage.prompt_tokens, usage.cached_tokens)
        self._outcome = Outcome(Ending.ANSWERED, prompt, cached)

    def refused(self) -> None:
        """The caller is wrong."""
        self._outcome = Outcome(Ending.REFUSED)

    def failed(self, error: UpstreamError | None = None) -> None:
        """The worker is wrong."""
        is_full = isinstance(error, UpstreamRefused) and error.status == OVERLOADED
        self._outcome = Outcome(Ending.REFUSED if is_full else Ending.FAILED)
        if self._span is not None and error is not None:
            self._span.error = error.reason
        if isinstance(error, ConnectFailed) or (isinstance(error, UpstreamTimeout) and error.phase == "connect"):
            self._model.latest.unreachable(self.booking.worker)


class Prefills:
    """Those of one request of *model*, which has a division. *request* is the whole one."""

    def __init__(
        self,
        model: Model,
        division: Division,
        request: Request,
        exchange: Exchange,
        *,
        persistence: Persistence,
        clock: Callable[[], float],
    ) -> None:
        self._model = model
        self._division = division
        self._request = division.prefill_request(request)
        self._exchange = exchange
        self._persistence = persistence
        self._clock = clock
        self._failed = FailedWorkers(model.fleet)
        self._wait_until: float | None = None
        self._has_cost = False  # the last one that failed had been sent something

    def take(self, decode: Candidate) -> tuple[WorkerBackend, Place] | None:
        """The next prefill worker for what *decode* is to answer, booked; None if it had better do it itself."""
        now = self._clock()
        if not self._may_try(now):
            return None
        order = [each for each in self._division.order(self._request, now) if each.worker not in self._failed]
        for candidate in order:
            if not self._division.by_load.pays(self._request, decode, candidate):
                return None
            backend = self._model.latest.workers.get(candidate.worker)
            booking = None if backend is None else self._model.fleet.book(self._request, candidate, now)
            if backend is not None and booking is not None:
                self._note(candidate, order)
                trace = self._exchange.trace
                span = None if trace is None else trace.prefill(backend.url, self._request, candidate, booking)
                return backend, Place(self._model, booking, self._clock, span)
        return None

    async def somebody_comes(self) -> bool:
        """Whether there is a prefill worker to be asked, after a wait for one; all waits together are a request's."""
        loop = asyncio.get_running_loop()
        if self._wait_until is None:
            self._wait_until = loop.time() + self._persistence.wait_at_most_s(self._request.deadline_s)
        while len(self._failed) < MOST_PREFILLS and loop.time() < self._wait_until:
            await self._model.arrivals.next()
            if any(
                worker.is_ready and worker.role == "prefill" and worker.id not in self._failed
                for worker in self._model.fleet
            ):
                return True
        return False

    @property
    def has_failed(self) -> bool:
        """Whether one was asked in vain."""
        return len(self._failed) > 0

    def first_byte_s(self, place: Place) -> float | None:
        """How long to wait for it before another is asked; None: as long as the timeouts allow."""
        predicted_s = self._model.fleet.first_byte_in_s(place.booking, self._clock())
        return None if predicted_s is None else self._persistence.first_byte_s(predicted_s)

    def failed(self, place: Place, error: UpstreamError | None = None) -> None:
        """It was asked in vain: *error*, or an answer that is of no use."""
        self._failed.add(place.booking.worker)
        self._has_cost = not isinstance(error, ConnectFailed)
        place.failed(error)

    def _may_try(self, now: float) -> bool:
        """A prompt may be computed anew as often as the retry budget allows; nothing was spent on who is not there."""
        if not self.has_failed:
            return True
        if len(self._failed) >= MOST_PREFILLS:
            return False
        return not self._has_cost or self._model.retry_budget.take(now)

    def _note(self, candidate: Candidate, order: list[Candidate]) -> None:
        """The cache that counts is that of the worker that computes."""
        exchange = self._exchange
        exchange.prefill_worker = candidate.worker
        exchange.strategy = self._division.strategy_of(self._request)
        exchange.reason = reason_of([candidate, *(each for each in order if each is not candidate)])
        exchange.hit_blocks = candidate.hit_blocks
        exchange.hit_tokens = candidate.hit_tokens
        exchange.hit_source = candidate.source
