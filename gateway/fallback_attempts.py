"""The fallbacks of one request, asked in their order; what is reserved there is settled at its end."""

import logging
from collections.abc import Callable

from gateway.attempt import CLIENT_ERRORS, Attempt, ask
from gateway.backends.backend import Call
from gateway.cascade.cascade import Cascade
from gateway.cascade.need import Need
from gateway.cascade.passage import Passage, Turned
from gateway.endpoints.endpoint import Endpoint
from gateway.endpoints.faults import reason_in
from gateway.errors import ClientError, GatewayError, PromptTooLong, ReplyBroken, UpstreamError
from gateway.exchange import Exchange
from gateway.overflow import says_overflow
from gateway.sse import Tail
from routing.booking import Ending

_log = logging.getLogger(__name__)


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
                return await self._ask(passage, self._call, failure), None
            except (UpstreamError, ClientError) as error:
                cause = error.with_traceback(None)
                if self._exchange.trace is not None:
                    self._exchange.trace.failed(cause)
                    self._exchange.trace.end_attempt(Ending.FAILED)
                whys.append(f"{passage.backend.id}: {_named(cause)}")
                if isinstance(cause, UpstreamError):
                    self._note_wait(max(passage.retry_in_s(self._clock()), cause.retry_after_s or 0.0) or None)
        if failure is not None:
            request_id, why = self._exchange.request_id.decode("ascii"), "; ".join(whys)
            _log.warning("request %s failed: workers: %s; fallbacks: %s", request_id, _named(failure), why)
        return None, cause

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


def _named(error: GatewayError) -> str:
    """As a log may show it: what a backend says may quote the prompt."""
    return f"{error.reason} {error.status}"
