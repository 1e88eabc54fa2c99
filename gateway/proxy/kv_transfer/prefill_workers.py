"""Choose prefill workers for a request, each at most once, and hold the request's slots on them."""

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from gateway.backends.backend import Call, WorkerBackend
from gateway.models.model import Model
from gateway.models.prefill_decode_plan import PrefillDecodePlan
from gateway.protocol.errors import ConnectFailed, UpstreamError, UpstreamRefused, UpstreamTimeout
from gateway.protocol.usage import Usage
from gateway.proxy.attempt import OVERLOADED, Attempt
from gateway.proxy.exchange import Exchange
from gateway.proxy.failed_workers import FailedWorkers
from gateway.proxy.retry_policy import RetryPolicy
from gateway.proxy.tracing.span import Span
from routing.booking import Booking, Ending, Outcome
from routing.candidate import Candidate
from routing.explanation import reason_of
from routing.request import Request

MAX_PREFILLS = 3
"""Maximum number of prefill workers that can fail one request. After that, the decode worker computes the prompt if
possible.
"""

Asked = Callable[[Call, bool], Coroutine[Any, Any, Attempt]]
"""Function that sends a call to the decode worker. Its second argument is true if the worker fetches the computed
prompt.
"""


class PrefillSlot:
    """Slot on a prefill worker. It is released with its outcome at the end of a ``with`` block."""

    def __init__(self, model: Model, booking: Booking, clock: Callable[[], float], span: Span | None = None) -> None:
        """Create a slot for *booking*. If the request is traced, *span* is the trace span of the prefill."""
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
        """Release the slot with the outcome recorded last, which is "aborted" by default. Only the first call has an
        effect.
        """
        if self._is_released:
            return
        self._is_released = True
        self._model.fleet.bookings.release(self.booking, self._outcome, self._clock())
        self._model.dispatch_queue.turn()
        if self._span is not None:
            self._span.attributes["warmgate.outcome"] = self._outcome.ending.value
            self._span.end(self._clock())

    def began(self) -> None:
        """Record that the prefill worker has computed the prompt."""
        self._model.fleet.bookings.first_byte(self.booking, self._clock())
        self._model.dispatch_queue.turn()

    def answered(self, usage: Usage | None) -> None:
        """Record that the prefill worker's answer is complete. Its single token does not count toward the average
        answer length.
        """
        prompt, cached = (None, None) if usage is None else (usage.prompt_tokens, usage.cached_tokens)
        self._outcome = Outcome(Ending.ANSWERED, prompt, cached)

    def refused(self) -> None:
        """Record that the prefill worker refused the request with an error that is the caller's fault."""
        self._outcome = Outcome(Ending.REFUSED)

    def failed(self, error: UpstreamError | None = None) -> None:
        """Record that the prefill worker failed with *error*."""
        is_full = isinstance(error, UpstreamRefused) and error.status == OVERLOADED
        self._outcome = Outcome(Ending.REFUSED if is_full else Ending.FAILED)
        if self._span is not None and error is not None:
            self._span.error = error.reason
        if isinstance(error, ConnectFailed) or (isinstance(error, UpstreamTimeout) and error.phase == "connect"):
            self._model.latest.unreachable(self.booking.worker)


class PrefillWorkers:
    """Choice of the prefill workers for one request of *model*, as configured in *plan*."""

    def __init__(
        self,
        model: Model,
        plan: PrefillDecodePlan,
        request: Request,
        exchange: Exchange,
        *,
        retry_policy: RetryPolicy,
        clock: Callable[[], float],
    ) -> None:
        self._model = model
        self._plan = plan
        self._request = plan.prefill_request(request)
        self._exchange = exchange
        self._retry_policy = retry_policy
        self._clock = clock
        self._failed = FailedWorkers(model.fleet)
        self._wait_until: float | None = None
        self._has_cost = False  # the last failed worker was sent the prompt

    def reserve(self, decode: Candidate) -> tuple[WorkerBackend, PrefillSlot] | None:
        """Reserve the next prefill worker for the decode worker *decode*. Return None if *decode* should compute the
        prompt itself.
        """
        now = self._clock()
        if not self._may_try(now):
            return None
        order = [each for each in self._plan.order(self._request, now) if each.worker not in self._failed]
        for candidate in order:
            if not self._plan.by_load.pays(self._request, decode, candidate):
                return None
            backend = self._model.latest.workers.get(candidate.worker)
            booking = None if backend is None else self._model.fleet.bookings.book(self._request, candidate, now)
            if backend is not None and booking is not None:
                self._note(candidate, order)
                trace = self._exchange.trace
                span = None if trace is None else trace.prefill(backend.url, self._request, candidate, booking)
                return backend, PrefillSlot(self._model, booking, self._clock, span)
        return None

    async def wait_for_worker(self) -> bool:
        """Wait for a prefill worker. Return False if none becomes available in time. All waits of a request share one
        time limit.
        """
        loop = asyncio.get_running_loop()
        if self._wait_until is None:
            self._wait_until = loop.time() + self._retry_policy.max_wait_s(self._request.deadline_s)
        while len(self._failed) < MAX_PREFILLS and loop.time() < self._wait_until:
            await self._model.arrivals.next()
            if any(
                worker.is_ready and worker.role == "prefill" and worker.id not in self._failed
                for worker in self._model.fleet
            ):
                return True
        return False

    @property
    def has_failed(self) -> bool:
        """Return whether any prefill worker has failed the request."""
        return len(self._failed) > 0

    def first_byte_s(self, slot: PrefillSlot) -> float | None:
        """Return the seconds to wait for the first byte before another worker is tried, or None for only the normal
        timeouts.
        """
        predicted_s = self._model.fleet.bookings.first_byte_in_s(slot.booking, self._clock())
        return None if predicted_s is None else self._retry_policy.first_byte_s(predicted_s)

    def failed(self, slot: PrefillSlot, error: UpstreamError | None = None) -> None:
        """Record that the worker of *slot* failed with *error*, or that its answer was unusable if *error* is None."""
        self._failed.add(slot.booking.worker)
        self._has_cost = not isinstance(error, ConnectFailed)
        slot.failed(error)

    def _may_try(self, now: float) -> bool:
        """Return whether the retry budget allows another prefill attempt. Failed connections cost nothing."""
        if not self.has_failed:
            return True
        if len(self._failed) >= MAX_PREFILLS:
            return False
        return not self._has_cost or self._model.retry_budget.spend(now)

    def _note(self, candidate: Candidate, order: list[Candidate]) -> None:
        """Record the routing decision, and the cache hit of the request on the worker that computes the prompt."""
        exchange = self._exchange
        exchange.prefill_worker = candidate.worker
        exchange.strategy = self._plan.strategy_of(self._request)
        exchange.reason = reason_of([candidate, *(each for each in order if each is not candidate)])
        exchange.hit_blocks = candidate.hit_blocks
        exchange.hit_tokens = candidate.hit_tokens
        exchange.hit_source = candidate.source
