"""The fallbacks of one request, asked in their order; what is reserved there is settled at its end."""

import asyncio
import logging
from collections.abc import Callable

from gateway.attempt import CLIENT_ERRORS, Attempt, ask
from gateway.backends.backend import Call
from gateway.cascade.cascade import Cascade
from gateway.cascade.need import Need
from gateway.cascade.passage import Passage, Turned
from gateway.cascade.verdict import nothing_was_done
from gateway.endpoints.endpoint import Endpoint
from gateway.endpoints.faults import reason_in
from gateway.errors import ClientError, GatewayError, PromptTooLong, ReplyBroken, UpstreamError
from gateway.exchange import Exchange
from gateway.overflow import says_overflow
from gateway.sse import Tail
from routing.booking import Ending

_log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0
"""Between two attempts at fallbacks that name no time; doubled each time."""


class FallbackAttempts:
    """One place at one fallback at a time, kept until `settle` once that fallback has begun to answer."""

    def __init__(
        self,
        endpoint: Endpoint,
        cascade: Cascade,
        call: Call,
        need: Need,
        exchange: Exchange,
        *,
        strip_usage: bool,
        clock: Callable[[], float],
    ) -> None:
        self._endpoint = endpoint
        self._cascade = cascade
        self._call: Call | None = call
        self._need = need
        self._exchange = exchange
        self._strip_usage = strip_usage
        self._clock = clock
        self._passage: Passage | None = None
        self.retry_in_s: float | None = None
        """Seconds until one of those that did not answer may do so; None: not known, or never for this request."""

    def forget_call(self) -> None:
        """No fallback will be asked any more: a stream may outlive the need for a long prompt by minutes."""
        self._call = None

    async def first_answer(self, failure: GatewayError | None) -> tuple[Attempt | None, GatewayError | None]:
        """The first answer of a fallback, or why there is none: what the last one said.

        *failure* is what the workers came to, for the log; None: they may be asked yet.
        """
        cause: GatewayError | None = None
        whys: list[str] = []
        self.retry_in_s = None
        assert self._call is not None, "it is forgotten"
        for passage in self._cascade.passages(self._need, self._clock()):
            if isinstance(passage, Turned):
                whys.append(f"{passage.backend}: {passage.why}")
                self._note_wait(passage.retry_after_s)
                if self._exchange.trace is not None:
                    self._exchange.trace.turned_away(passage.backend, passage.why)
                continue
            try:
                attempt = await self._ask(passage, self._call, failure)
                self._note_answer()
                return attempt, None  # noqa: TRY300  # nothing else of this can fail
            except (UpstreamError, ClientError) as error:
                cause = error.with_traceback(None)
                if self._exchange.trace is not None:
                    self._exchange.trace.failed(cause)
                    self._exchange.trace.end_attempt(Ending.FAILED)
                whys.append(f"{passage.backend.id}: {_named(cause)}")
                if isinstance(cause, UpstreamError):
                    self._note_wait(max(passage.retry_in_s(self._clock()), cause.retry_after_s or 0.0) or None)
        is_outage = failure is not None and not (isinstance(cause, ClientError) and len(whys) == 1)
        if is_outage and self._cascade.outage.failed(self._clock()):
            request_id, why = self._exchange.request_id.decode("ascii"), "; ".join(whys)
            _log.warning("request %s failed: workers: %s; fallbacks: %s", request_id, _named(failure), why)
        return None, cause

    async def patient_answer(
        self, failure: GatewayError, *, wait_s: float, max_attempts: int | None, may_retry: Callable[[], bool]
    ) -> tuple[Attempt | None, GatewayError | None]:
        """As `first_answer`, of a model that has no workers: tried again as the last worker would be.

        That is for *wait_s* in all, at most *max_attempts* times, as long as *may_retry*, and only where nothing was
        generated: what a fallback began to generate is paid for.
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
        """When it is worth while to ask again; None: never. Who has no room, or was shut, refuses at once."""
        if not isinstance(cause, UpstreamError) or not nothing_was_done(cause):
            return None
        return max(pause_s, self.retry_in_s or 0.0)

    def _note_answer(self) -> None:
        ended = self._cascade.outage.answered(self._clock())
        if ended is not None:
            outage_s, failed = ended
            text = "model %s: a fallback answers again after %.0f s, in which %d requests failed"
            _log.warning(text, self._cascade.model, outage_s, failed)

    def _note_wait(self, wait_s: float | None) -> None:
        if wait_s is not None:
            self.retry_in_s = wait_s if self.retry_in_s is None else min(self.retry_in_s, wait_s)

    def settle(self, ending: Ending, error: UpstreamError | None) -> None:
        """The request ended so, *error* being what broke its answer: what was reserved is settled, once."""
        passage, self._passage = self._passage, None
        if passage is None:
            return
        now = self._clock()
        if ending is Ending.ANSWERED:
            passage.answered(self._exchange.usage, now)
        elif ending is Ending.REFUSED:
            passage.unused(now)
        elif ending is Ending.FAILED:
            passage.failed(error or ReplyBroken(f"{passage.backend.id} broke off"), now)
        else:
            passage.left(self._exchange.streamed_events, now)

    async def _ask(self, passage: Passage, call: Call, cause: GatewayError | None) -> Attempt:
        """One fallback; its place there is given back with a failure. *cause* is how the workers failed."""
        exchange, trace = self._exchange, self._exchange.trace
        exchange.backend = passage.backend.id
        exchange.served_by = passage.kind
        exchange.hit_blocks = 0
        exchange.hit_tokens = 0.0
        exchange.hit_source = None
        exchange.predicted_ttft_s = exchange.regret_s = None
        exchange.attempts += 1
        if trace is not None:
            call = trace.attempt(call, passage.backend.id, passage.kind)
            trace.because("asked first" if cause is None else cause.reason)
        try:
            attempt = await ask(passage.backend, call, self._endpoint, self._tail)
        except UpstreamError as error:
            passage.failed(error, self._clock())
            raise
        except ClientError:
            passage.unused(self._clock())
            raise
        except BaseException:
            passage.left(0, self._clock())
            self._pays(passage)
            raise
        if _is_too_long_for_it(attempt):
            passage.unused(self._clock())
            await attempt.reply.aclose()
            raise PromptTooLong(reason_in(attempt.first) or f"{passage.backend.id} has no room for the prompt")
        passage.began()
        if trace is not None:
            trace.first_byte(attempt.status)
        if attempt.tail is not None:
            exchange.began(self._clock())
        self._passage = passage
        self._pays(passage)
        return attempt

    def _pays(self, passage: Passage) -> None:
        """What the request comes to is what this fallback takes for it."""
        self._exchange.fell_back = True
        self._exchange.price = passage.price

    def _tail(self) -> Tail:
        return self._endpoint.tail(strip_usage=self._strip_usage)


def _is_too_long_for_it(attempt: Attempt) -> bool:
    """Whether a fallback refuses what another one may have room for: it has a tokenizer of its own."""
    return attempt.status in CLIENT_ERRORS and says_overflow(attempt.status, attempt.first)


def _named(error: GatewayError | None) -> str:
    """As a log may show it: what a backend says may quote the prompt."""
    return "not asked" if error is None else f"{error.reason} {error.status}"
