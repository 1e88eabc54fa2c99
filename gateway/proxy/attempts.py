"""Try workers and fallbacks for a request until one of them begins to answer, and again after a stream breaks.

1. Workers are tried in the order of the routing strategy. If all have failed or no worker exists, the request waits for
   a worker.
2. Fallbacks are tried after the workers, in their configured order. Fallbacks are tried first if the request is too
   long for the workers, or would wait too long for a worker.
3. If a stream breaks, another worker continues it where that is possible without repeated or lost text.
"""

from collections.abc import Callable
from contextlib import suppress

from gateway.backends.backend import Call
from gateway.backends.fallbacks.fallback_request import FallbackRequest
from gateway.models.model import Model
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.errors import (
    ClientError,
    GatewayError,
    NoWorker,
    PromptTooLong,
    QueueFull,
    ReplyBroken,
    UpstreamError,
    UpstreamRefused,
    WaitsTooLong,
)
from gateway.protocol.usage import Usage
from gateway.proxy.attempt import CLIENT_ERRORS, RETRY_AFTER_S, Attempt, refused_status
from gateway.proxy.continuation.continuation import Continuation
from gateway.proxy.exchange import Exchange
from gateway.proxy.fallback_attempts import FallbackAttempts
from gateway.proxy.retry_policy import RetryPolicy
from gateway.proxy.worker_attempts import WorkerAttempts
from routing.booking import Ending
from routing.request import Request

WORKER_BACK_S = 60.0
"""Longest `retry-after` in seconds for a model that has workers. An unavailable worker might be back by then."""


class Attempts:
    """Attempts of one request at workers and fallbacks, with a record of how the request ended at its backend."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: Model,
        request: Request,
        call: Call,
        exchange: Exchange,
        *,
        strip_usage: bool,
        continuation: Continuation | None = None,
        plain_call: Call | None = None,
        fallback_request: FallbackRequest | None = None,
        retry_policy: RetryPolicy = RetryPolicy(),  # noqa: B008  # frozen
        clock: Callable[[], float],
    ) -> None:
        """Prepare the attempts for *request*. With *continuation*, *call* asks the engine for the additional data that
        a continuation needs, and *plain_call* does not.

        The requirements on fallbacks are in *fallback_request*, which is None if the request must not be sent to a
        fallback.
        """
        self._endpoint = endpoint
        self._model = model
        self._deadline_s = request.deadline_s
        self._call: Call | None = call
        self._fallback_request = fallback_request
        self._fallbacks: FallbackAttempts | None = None
        if fallback_request is not None and model.fallbacks:
            plain_call = call if plain_call is None else plain_call
            self._fallbacks = FallbackAttempts(
                endpoint, model.fallbacks, plain_call, fallback_request, exchange, strip_usage=strip_usage, clock=clock
            )
        self._workers = WorkerAttempts(
            endpoint,
            model,
            request,
            exchange,
            strip_usage=strip_usage,
            continuation=continuation,
            retry_policy=retry_policy,
            may_cut_wait_short=self._fallbacks is not None,
            clock=clock,
        )
        self._current = self._workers.current
        self._retry_policy = retry_policy
        self.exchange = exchange
        self._clock = clock
        self._ending = Ending.ABORTED
        self._error: UpstreamError | None = None
        self._usage: Usage | None = None  # of an answer that does not stream

    @property
    def continuation(self) -> Continuation | None:
        """State from which another worker can continue a broken stream, or None if no worker can continue it."""
        return self._current.continuation

    @property
    def usage(self) -> Usage | None:
        """Usage in an answer that is not a stream, or None before `note_usage` or if the answer has none."""
        return self._usage

    async def first_answer(self) -> Attempt:
        """Return the first answer that is not a failure of its backend. A 4xx status that is the caller's fault is such
        an answer.

        This method can be called only once. The prompt is released, because a stream may last for minutes after the
        prompt was sent.

        Raises:
            UpstreamRefused: if every candidate failed, and the last one returned an error status.
            QueueFull: if the queue is full, or the wait would be longer than allowed.
            NoWorker: if no worker can be reached.
        """
        call, self._call = self._call, None
        assert call is not None, "first_answer was called twice"
        now = self._clock()
        self._model.retry_budget.note(now)
        self._model.fallbacks.note_request(now)
        if self._fallbacks is None:
            return await self._workers.first_answer(call)
        try:
            return await self._workers_or_fallbacks(call, self._fallbacks)
        finally:
            self._fallbacks.forget_call()

    async def _workers_or_fallbacks(self, call: Call, fallbacks: FallbackAttempts) -> Attempt:
        if self._is_too_long_for_workers():
            attempt, _ = await self._fallback_answer(fallbacks)
            if attempt is not None:
                return attempt
        try:
            return await self._worker_unless_spilled(call, fallbacks)
        except (UpstreamError, NoWorker, QueueFull) as error:
            failure: GatewayError | None = error.with_traceback(None)
        try:
            attempt, cause = await self._fallback_answer(fallbacks, failure)
            if attempt is not None:
                return attempt
            try:
                if self._workers.retry_state.has_cut_wait_short:
                    return await self._worker_after_full_wait(call)
            except (UpstreamError, NoWorker, QueueFull) as error:
                failure = error.with_traceback(None)
            assert failure is not None
            if isinstance(cause, PromptTooLong) and fallbacks.retry_in_s is None and not self._model.has_fleet:
                raise cause
            raise _without_fallback(failure, cause, self._fallback_wait_s(fallbacks)) from cause
        finally:
            # A traceback holds the frames that the error went through, and so the call. Only the cycle collector would
            # free them if a frame, or a connection that failed, holds the error as well.
            failure = cause = None

    async def _worker_unless_spilled(self, call: Call, fallbacks: FallbackAttempts) -> Attempt:
        """Return the first answer of a worker, or of a fallback if the workers would take too long.

        If no fallback answers, the request waits for the workers.
        """
        with suppress(WaitsTooLong):
            return await self._workers.first_answer(call)
        attempt, _ = await self._fallback_answer(fallbacks)
        if attempt is not None:
            return attempt
        self._workers.never_spill()
        return await self._workers.first_answer(call)

    async def _worker_after_full_wait(self, call: Call) -> Attempt:
        """Try the workers again with the full waiting time. The first wait was shorter to leave time for the fallbacks,
        which did not answer.
        """
        self._workers.retry_state.wait_in_full()
        self._workers.never_spill()
        return await self._workers.first_answer(call)

    async def go_on(self, error: UpstreamError) -> Attempt:
        """Continue the stream that *error* broke on another worker, and return the new worker's answer.

        Raises:
            UpstreamError: if no worker can continue the stream. The exception is then *error*.
            NoWorker: if no worker can be reached.
        """
        current, exchange = self._current, self.exchange
        continuation, booking = current.continuation, current.booking
        call = None if continuation is None or booking is None else continuation.next_call()
        if call is None or continuation is None or booking is None:
            raise error
        observer = None if current.answer is None else current.answer.observer
        is_predicted = exchange.hit_source is not None and exchange.prompt_tokens > 0.0
        hit_share = exchange.hit_tokens / exchange.prompt_tokens if is_predicted else None
        self._workers.retry_state.restart_wait()
        await self._workers.leave(booking.worker, error)
        try:
            attempt = await self._workers.first_answer(call, skips_queue=True)
        except UpstreamError as failure:
            raise error from failure.with_traceback(None)
        if attempt.observer is None:
            raise error  # the worker refuses a request that the first one accepted
        continuation.resumed(hit_share=hit_share)
        exchange.continued += 1
        exchange.streamed_events += 0 if observer is None else observer.events
        return attempt

    # ---- how the request ended at its backend

    def note_usage(self, attempt: Attempt) -> None:
        """Read the usage in an answer without streaming before the gateway sends the response headers. The predicted
        cache hit is lowered to the number of prompt tokens that the engine reports.
        """
        if attempt.status in CLIENT_ERRORS:
            return
        exchange, usage = self.exchange, self._endpoint.usage_of(attempt.first)
        self._usage = usage
        if usage is None:
            return
        if usage.prompt_tokens < exchange.hit_tokens:
            exchange.hit_tokens = float(usage.prompt_tokens)
        if exchange.shows_cost:
            exchange.show_cost(exchange.price or self._model.pricing.current, usage)

    def answered(self, attempt: Attempt) -> None:
        """Record that the caller has received the whole answer."""
        observer, exchange = attempt.observer, self.exchange
        if attempt.status in CLIENT_ERRORS or (observer is not None and refused_status(observer) is not None):
            self._ending = Ending.REFUSED
            exchange.error = "Refused"
            return
        if observer is not None and (observer.failed is not None or observer.aborted):
            self._ending = Ending.FAILED
            exchange.error = ReplyBroken.__name__
            return
        self._ending = Ending.ANSWERED
        exchange.usage = (self._usage or self._endpoint.usage_of(attempt.first)) if observer is None else observer.usage
        if self.continuation is not None:
            exchange.usage = self.continuation.usage(exchange.usage)

    def completed(self) -> None:
        """Record that the worker failed after it had sent the whole answer except the end of the stream."""
        self._ending = Ending.FAILED
        if self.continuation is not None:
            self.exchange.usage = self.continuation.usage(None)

    def broken(self, error: UpstreamError) -> None:
        """Record that the backend failed after it had sent the first byte of the answer."""
        self._ending = Ending.FAILED
        self._error = error.with_traceback(None)
        if self.exchange.trace is not None:
            self.exchange.trace.failed(error)
        if self.continuation is not None:
            self.exchange.usage = self.continuation.usage(None)

    async def aclose(self) -> None:
        """Close the reply and release the worker's slot. The request counts as aborted unless another outcome was
        recorded.
        """
        try:
            await self._current.give_back(self._ending)
        finally:
            if self._fallbacks is not None:
                self._fallbacks.settle(self._ending, self._error)

    # ---- fallbacks

    def _is_too_long_for_workers(self) -> bool:
        """Return whether the estimated prompt and the requested answer exceed the context length of the workers."""
        most, asked = self._model.context_tokens, self._fallback_request
        return most is not None and asked is not None and asked.prompt_tokens + (asked.max_tokens or 0) > most

    def _fallback_wait_s(self, fallbacks: FallbackAttempts) -> float | None:
        """Return the seconds until a fallback is allowed to answer, at most `WORKER_BACK_S` if the model has workers,
        or None if unknown.
        """
        wait_s = fallbacks.retry_in_s
        return wait_s if wait_s is None or not self._model.has_fleet else min(wait_s, WORKER_BACK_S)

    async def _fallback_answer(
        self, fallbacks: FallbackAttempts, failure: GatewayError | None = None
    ) -> tuple[Attempt | None, GatewayError | None]:
        """Return the first answer of a fallback, or None and the error of the last fallback.

        The failure of the workers is passed as *failure*, which is None if the workers were not tried.
        """
        if failure is None or self._model.has_fleet:
            attempt, cause = await fallbacks.first_answer(failure)
        else:
            attempt, cause = await fallbacks.patient_answer(
                failure,
                wait_s=self._retry_policy.max_wait_s(self._deadline_s),
                max_attempts=self._retry_policy.max_attempts,
                may_retry=lambda: self._model.retry_budget.spend(self._clock()),
            )
        if attempt is not None:
            self._current.continuation = None
            self._current.answer = attempt
        return attempt, cause


def _without_fallback(failure: GatewayError, cause: GatewayError | None, wait_s: float | None) -> GatewayError:
    """Return the error for a caller if neither workers nor fallbacks have answered. *failure* is the failure of the
    workers.

    A valid request that only workers can serve never gets a 4xx status. The seconds until a fallback may answer are
    passed as *wait_s*, or None if they are unknown.
    """
    why = f", and no fallback can serve the request: {cause}" if isinstance(cause, ClientError) else ""
    if isinstance(failure, NoWorker) or (isinstance(failure, UpstreamRefused) and failure.retry_after_s is None):
        wait_s = failure.retry_after_s or RETRY_AFTER_S if wait_s is None else wait_s
        return NoWorker(f"{failure}{why}", retry_after_s=wait_s)
    if wait_s is not None and failure.retry_after_s is not None:
        failure.retry_after_s = min(failure.retry_after_s, wait_s)
    return failure
