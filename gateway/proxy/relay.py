"""Forward the answer to a request to its caller.

1. Nothing is sent to the caller before the first useful byte of an answer.
2. If a stream breaks after that, another worker continues it if it can do so exactly. A stream that cannot be continued
   ends with an SSE error event, and without `[DONE]`, which would report success.
3. The worker's slot is released and the reply is closed, however the request ends.
"""

from cache_index import WorkerId
from gateway.models.response_affinity.owners import ResponseOwner, ResponseOwners
from gateway.protocol.errors import ReplyBroken, UpstreamError
from gateway.protocol.request_hints import MAX_NAME_LENGTH
from gateway.proxy.attempt import Attempt
from gateway.proxy.attempts import Attempts
from gateway.proxy.cached_answers import note_miss, publish_answer
from gateway.proxy.continuation.continuation import Continuation
from gateway.proxy.disconnects import Disconnects, Watch
from gateway.proxy.downstream import Downstream
from gateway.proxy.exchange import Exchange
from gateway.proxy.guardrails.guard import Guard


class Relay:
    """Relay that forwards answers to callers, and that records which worker stores a response."""

    def __init__(self, owners: ResponseOwners, disconnects: Disconnects) -> None:
        self._owners = owners
        self._disconnects = disconnects

    async def answer(self, attempts: Attempts, downstream: Downstream, watch: Watch, guard: Guard | None) -> None:
        """Send the request with *attempts*, forward the answer, and release the request's resources. At the end, stop
        *watch*.
        """
        failure: BaseException | None = None
        try:
            attempt = await attempts.first_answer()
            if attempt.response_id is not None:
                self._remember(attempt.response_id, attempts.exchange)
            claim = attempts.exchange.claim
            if claim is not None:
                note_miss(attempts.exchange)
            if attempt.observer is None:
                if guard is not None:
                    await guard.answer(attempt)
                attempts.note_usage(attempt)
                if claim is not None:
                    body = downstream.as_asked(attempt.status, attempt.headers, attempt.first)
                    publish_answer(claim, attempts.exchange, attempt, body, attempts.usage)
                await downstream.answer(attempt.status, attempt.headers, attempt.first)
                attempts.answered(attempt)
            else:
                await downstream.start(attempt.status, attempt.headers)
                if claim is not None:
                    claim.begin_recording()
                    downstream.record(claim.record)
                await _relay(attempt, attempts, downstream, guard)
        except BaseException as error:  # noqa: BLE001  # raised again below
            failure = error
        try:
            if isinstance(failure, UpstreamError):
                attempts.broken(failure)
            if downstream.observer is not None:
                attempts.exchange.streamed_events += downstream.observer.events
            self._disconnects.end(watch)  # a caller that leaves now must not cut the closing short
            await attempts.aclose()
            if failure is not None:
                raise failure
        finally:
            del failure  # its traceback holds this frame

    def _remember(self, response_id: str, exchange: Exchange) -> None:
        if exchange.model is not None and exchange.backend is not None and not exchange.fell_back:
            asked = exchange.model_asked or ""
            asked = asked if len(asked) < MAX_NAME_LENGTH else ""  # a longer name may have been cut
            self._owners.remember(
                response_id, ResponseOwner(exchange.model, WorkerId(exchange.backend), exchange.team, asked)
            )


async def _relay(attempt: Attempt, attempts: Attempts, downstream: Downstream, guard: Guard | None) -> None:
    """Relay a stream to its end. If a worker fails, another worker continues the stream."""
    continuation = attempts.continuation
    while True:
        try:
            await _pass_on(attempt, downstream, continuation, guard)
        except UpstreamError as error:
            if continuation is None:
                raise
            failure = error.with_traceback(None)
        else:
            attempts.answered(attempt)
            return
        rest = continuation.closing()
        if rest is not None:
            attempts.completed()
            await _write_last(rest, downstream, guard)
            return
        attempt = await attempts.go_on(failure)


async def _pass_on(
    attempt: Attempt, downstream: Downstream, continuation: Continuation | None, guard: Guard | None
) -> None:
    """Forward the events of a worker as they arrive.

    Raises:
        UpstreamError: if the stream is incomplete. If the stream can be continued, the caller does not notice that.
        GatewayError: if a guardrail ends the stream. The caller has then received the error.
    """
    reply, observer = attempt.reply, attempt.observer
    assert observer is not None, "the answer is a stream"
    downstream.observer = observer
    data, attempt.first = attempt.first, b""
    while True:
        if data and continuation is not None:
            data = continuation.passed(data)
        if guard is not None:
            data = guard.passed(data)
            if guard.blocked is not None:
                await _write_last(data, downstream, None)
                raise guard.blocked
        if data:
            await downstream.write(data)
        if downstream.stopped is not None:
            raise downstream.stopped
        if continuation is not None and (observer.aborted or observer.failed is not None):
            raise _incomplete()
        if reply.ended:
            break
        data = observer.feed(await reply.read())
    if observer.inside_event:
        raise _incomplete()
    rest = observer.finish()
    if not observer.done and observer.failed is None:
        raise _incomplete()
    if rest and continuation is not None:
        rest = continuation.passed(rest)
    await _write_last(rest, downstream, guard)


async def _write_last(rest: bytes, downstream: Downstream, guard: Guard | None) -> None:
    """Send the end of a stream, which a guardrail can still change.

    Raises:
        GatewayError: if a guardrail blocks the stream.
    """
    if guard is not None:
        rest = await guard.finish(rest)
    await downstream.write(rest, last=True)
    if guard is not None and guard.blocked is not None:
        raise guard.blocked


def _incomplete() -> ReplyBroken:
    return ReplyBroken("The worker ended the stream before it was complete")
