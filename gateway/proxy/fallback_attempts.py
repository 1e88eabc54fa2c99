"""Try the fallbacks of a model for a request in their configured order, and settle the usage reserved at each one."""

import asyncio
import logging
from collections.abc import Callable

from gateway.backends.backend import Call
from gateway.backends.fallbacks.failure_class import nothing_was_done
from gateway.backends.fallbacks.fallback_attempt import FallbackAttempt, Skipped
from gateway.backends.fallbacks.fallback_request import FallbackRequest
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.protocol.context_overflow import says_overflow
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.endpoints.faults import reason_in
from gateway.protocol.errors import ClientError, GatewayError, PromptTooLong, ReplyBroken, UpstreamError
from gateway.protocol.sse import StreamObserver
from gateway.proxy.attempt import CLIENT_ERRORS, Attempt, ask
from gateway.proxy.exchange import Exchange
from routing.booking import Ending

_log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0
"""Longest pause in seconds between two attempts at fallbacks without a `retry-after`. The pause doubles each time up to
this value.
"""


class FallbackAttempts:
    """Attempts of one request at fallbacks, one at a time. The attempt that begins to answer is kept until `settle` is
    called.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        fallbacks: Fallbacks,
        call: Call,
        fallback_request: FallbackRequest,
        exchange: Exchange,
        *,
        strip_usage: bool,
        clock: Callable[[], float],
    ) -> None:
        self._endpoint = endpoint
        self._fallbacks = fallbacks
        self._call: Call | None = call
        self._fallback_request = fallback_request
        self._exchange = exchange
        self._strip_usage = strip_usage
        self._clock = clock
        self._fallback_attempt: FallbackAttempt | None = None
        self.retry_in_s: float | None = None
        """Seconds until a fallback that did not answer might answer, or None if unknown or if no fallback can answer
        the request.
        """

    def forget_call(self) -> None:
        """Release the request body after the last attempt, because a stream can last for minutes after a long prompt
        was sent.
        """
        self._call = None

    async def first_answer(self, failure: GatewayError | None) -> tuple[Attempt | None, GatewayError | None]:
        """Return the first answer of a fallback, or None and the error of the last fallback.

        The failure of the workers is passed as *failure* for the log, or None if the workers were not tried.
        """
        cause: GatewayError | None = None
        whys: list[str] = []
        self.retry_in_s = None
        assert self._call is not None, "the call is known"
        for fallback_attempt in self._fallbacks.attempts(self._fallback_request, self._clock()):
            if isinstance(fallback_attempt, Skipped):
                whys.append(f"{fallback_attempt.backend}: {fallback_attempt.why}")
                self._note_wait(fallback_attempt.retry_after_s)
                if self._exchange.trace is not None:
                    self._exchange.trace.turned_away(fallback_attempt.backend, fallback_attempt.why)
                continue
            try:
                attempt = await self._ask(fallback_attempt, self._call, failure)
                self._note_answer()
                return attempt, None  # noqa: TRY300  # the rest of the block cannot raise
            except (UpstreamError, ClientError) as error:
                cause = error.with_traceback(None)
                self._exchange.note_failure(fallback_attempt.backend.id, cause.reason)
                if self._exchange.trace is not None:
                    self._exchange.trace.failed(cause)
                    self._exchange.trace.end_attempt(Ending.FAILED)
                whys.append(f"{fallback_attempt.backend.id}: {_named(cause)}")
                if isinstance(cause, UpstreamError):
                    self._note_wait(max(fallback_attempt.retry_in_s(self._clock()), cause.retry_after_s or 0.0) or None)
        is_outage = failure is not None and not (isinstance(cause, ClientError) and len(whys) == 1)
        if is_outage and self._fallbacks.outage.failed(self._clock()):
            request_id, why = self._exchange.request_id.decode("ascii"), "; ".join(whys)
            _log.warning("request %s failed: workers: %s; fallbacks: %s", request_id, _named(failure), why)
        return None, cause

    async def patient_answer(
        self, failure: GatewayError, *, wait_s: float, max_attempts: int | None, may_retry: Callable[[], bool]
    ) -> tuple[Attempt | None, GatewayError | None]:
        """Return the first answer of a fallback like `first_answer`, but retry if all fallbacks fail. This is for
        models without workers.

        Retries continue for *wait_s* seconds, at most *max_attempts* times, and as long as *may_retry* returns true.
        The request is not retried after a fallback has generated tokens, because the tokens would be paid for twice.
        """
        loop = asyncio.get_running_loop()
        until, pause_s = loop.time() + wait_s, FIRST_PAUSE_S
        while True:
            attempt, cause = await self.first_answer(failure)
            again_in_s = self._again_in_s(cause, pause_s)
            if attempt is not None or again_in_s is None or loop.time() + again_in_s > until:
                return attempt, cause
            if (max_attempts is not None and self._exchange.attempts >= max_attempts) or not may_retry():
                return None, cause
            self._exchange.enter("wait")
            await asyncio.sleep(again_in_s)
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)

    def _again_in_s(self, cause: GatewayError | None, pause_s: float) -> float | None:
        """Return the seconds to wait before the fallbacks are tried again, or None if they must not be tried again."""
        if not isinstance(cause, UpstreamError) or not nothing_was_done(cause):
            return None
        return max(pause_s, self.retry_in_s or 0.0)

    def _note_answer(self) -> None:
        ended = self._fallbacks.outage.answered(self._clock())
        if ended is not None:
            outage_s, failed = ended
            text = "a fallback of model %s answers again after %.0f s, in which %d requests failed"
            _log.warning(text, self._fallbacks.model, outage_s, failed)

    def _note_wait(self, wait_s: float | None) -> None:
        if wait_s is not None:
            self.retry_in_s = wait_s if self.retry_in_s is None else min(self.retry_in_s, wait_s)

    def settle(self, ending: Ending, error: UpstreamError | None) -> None:
        """Settle the usage reserved at the fallback exactly once. If the answer broke off, *error* is the error."""
        fallback_attempt, self._fallback_attempt = self._fallback_attempt, None
        if fallback_attempt is None:
            return
        now = self._clock()
        if ending is Ending.ANSWERED:
            fallback_attempt.answered(self._exchange.usage, now)
        elif ending is Ending.REFUSED:
            fallback_attempt.unused(now)
        elif ending is Ending.FAILED:
            fallback_attempt.failed(error or ReplyBroken(f"{fallback_attempt.backend.id} ended its answer early"), now)
        else:
            fallback_attempt.left(self._exchange.streamed_events, now)

    async def _ask(self, fallback_attempt: FallbackAttempt, call: Call, cause: GatewayError | None) -> Attempt:
        """Send the request to one fallback. If the fallback fails, release its reservation. *cause* is the failure of
        the workers.
        """
        exchange, trace = self._exchange, self._exchange.trace
        exchange.backend = fallback_attempt.backend.id
        exchange.served_by = fallback_attempt.kind
        exchange.hit_blocks = 0
        exchange.hit_tokens = 0.0
        exchange.hit_source = None
        exchange.predicted_ttft_s = exchange.regret_s = None
        exchange.attempts += 1
        if trace is not None:
            call = trace.attempt(call, fallback_attempt.backend.id, fallback_attempt.kind)
            trace.because("asked first" if cause is None else cause.reason)
        try:
            attempt = await ask(fallback_attempt.backend, call, self._endpoint, self._observer)
        except UpstreamError as error:
            fallback_attempt.failed(error, self._clock())
            raise
        except ClientError:
            fallback_attempt.unused(self._clock())
            raise
        except BaseException:
            fallback_attempt.left(0, self._clock())
            self._note_price(fallback_attempt)
            raise
        if _is_too_long_for_it(attempt):
            fallback_attempt.unused(self._clock())
            await attempt.reply.aclose()
            raise PromptTooLong(reason_in(attempt.first) or f"{fallback_attempt.backend.id} cannot hold the prompt")
        fallback_attempt.began()
        if trace is not None:
            trace.first_byte(attempt.status)
        if attempt.observer is not None:
            exchange.began(self._clock())
        self._fallback_attempt = fallback_attempt
        self._note_price(fallback_attempt)
        return attempt

    def _note_price(self, fallback_attempt: FallbackAttempt) -> None:
        """Record that the price of this fallback applies to the request."""
        self._exchange.fell_back = True
        self._exchange.price = fallback_attempt.price

    def _observer(self) -> StreamObserver:
        return self._endpoint.observer(strip_usage=self._strip_usage)


def _is_too_long_for_it(attempt: Attempt) -> bool:
    """Return whether a fallback rejects the prompt as too long, so that another fallback might still accept it."""
    return attempt.status in CLIENT_ERRORS and says_overflow(attempt.status, attempt.first)


def _named(error: GatewayError | None) -> str:
    """Return the class and status of *error* without the text, because the text might quote the prompt."""
    return "not asked" if error is None else f"{error.reason} {error.status}"
