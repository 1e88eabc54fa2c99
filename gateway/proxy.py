"""The life of a completion request, from the caller's bytes to the caller's bytes.

1. Nothing goes downstream before the first useful byte of an answer is here. Until then every failure of a worker is
   invisible: the next candidate is tried, never one that has failed.
2. After it, a failure is an SSE error event and the end of the stream, without a `[DONE]` that would claim success.
3. What was booked is released and what was opened is closed, however the request ends.
"""

import asyncio
import logging
import random
import traceback
from collections.abc import Callable, Mapping

import msgspec

from gateway import headers as header_rules
from gateway.attempt import Attempt, Attempts
from gateway.backends.backend import Call, Headers
from gateway.body import Completion
from gateway.disconnects import Disconnects, Watch
from gateway.downstream import Downstream, Send
from gateway.endings import Endings
from gateway.errors import GatewayError, ReplyBroken, Stopping, UpstreamError
from gateway.exchange import Exchange
from gateway.incoming import CallerGone, Incoming, Receive, Scope
from gateway.models import Models
from gateway.splice import asking_usage, spliced
from gateway.sse import StreamTail

_log = logging.getLogger(__name__)

Parse = Callable[[bytes], Completion]

CLIENT_CLOSED_REQUEST = 499
"""nginx's number for a caller that went away before it got an answer; it stands in logs and metrics only."""


class Proxy:
    """Serves the completion endpoints. *parsers* says how the body of each path is read."""

    def __init__(
        self,
        parsers: Mapping[str, Parse],
        models: Models,
        *,
        endings: Endings,
        disconnects: Disconnects,
        clock: Callable[[], float],
        rng: random.Random,
        max_body_bytes: int,
        max_attempts: int | None = None,
    ) -> None:
        self._parsers = parsers
        self._models = models
        self._endings = endings
        self._disconnects = disconnects
        self._clock = clock
        self._rng = rng
        self._max_body_bytes = max_body_bytes
        self._max_attempts = max_attempts

    def serves(self, path: str) -> bool:
        return path in self._parsers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; an ASGI application for the paths that it serves."""
        incoming = Incoming(scope, receive)
        exchange = self._exchange(incoming)
        downstream = Downstream(send, exchange)
        try:
            await self._serve(exchange, incoming, downstream)
        except CallerGone:
            exchange.error = CallerGone.__name__
            exchange.status = exchange.status or CLIENT_CLOSED_REQUEST
        except asyncio.CancelledError:
            # Not raised again: the server would log a trace and tell the caller nothing, or plain text.
            exchange.error = Stopping.__name__
            if downstream.started and not exchange.streams:
                raise
            await downstream.fail(Stopping("The gateway is stopping, ask again", retry_after_s=1))
        except GatewayError as error:
            exchange.error = error.reason
            await downstream.fail(error)
        except Exception as error:  # noqa: BLE001  # whatever it was, the caller gets an answer
            _log.error("request %s failed:\n%s", exchange.request_id.decode("ascii"), _trace(error))
            exchange.error = GatewayError.__name__
            await downstream.fail(GatewayError("The gateway failed to serve this request"))
        finally:
            self._endings.add(exchange, self._clock())

    async def _serve(self, exchange: Exchange, incoming: Incoming, downstream: Downstream) -> None:
        raw = await incoming.json_body(most_bytes=self._max_body_bytes)
        completion = self._parsers[exchange.path](raw)
        model = self._models.find(completion.model)
        exchange.model = model.name
        exchange.streams = completion.streams
        call = Call(
            method=b"POST",
            path=incoming.target,
            headers=incoming.upstream_headers(exchange.request_id),
            body=upstream_body(raw, completion, model.upstream_name),
            streams=completion.streams,
            model=completion.model,
        )
        request = model.request(completion, incoming.text_of(model.session_header))
        watch = self._disconnects.begin(incoming.receive)
        model.in_flight += 1
        try:
            dispatch = await model.turnstile.admit(request)
            exchange.strategy = model.strategy
            exchange.reason = dispatch.reason
            exchange.prompt_blocks = request.prefix.blocks
            attempts = Attempts(model, dispatch, exchange, clock=self._clock, most=self._max_attempts)
            await self._answer(attempts, call, downstream, watch, strip_usage=not completion.asks_usage)
        except asyncio.CancelledError:
            if not watch.gone:
                raise
            watch.task.uncancel()
            raise CallerGone from None
        finally:
            model.in_flight -= 1
            self._disconnects.end(watch)

    async def _answer(
        self, attempts: Attempts, call: Call, downstream: Downstream, watch: Watch, *, strip_usage: bool
    ) -> None:
        """Send, relay, settle."""
        try:
            attempt = await attempts.first_answer(call, strip_usage=strip_usage)
            if attempt.tail is None:
                await downstream.answer(attempt.reply.status, _passed(attempt), attempt.first)
            else:
                await self._relay(attempt, attempt.tail, downstream)
            attempts.answered(attempt)
        except UpstreamError:
            attempts.broken()
            raise
        finally:
            self._disconnects.end(watch)  # an answered caller may leave: that must not cut short the closing
            await attempts.aclose()

    async def _relay(self, attempt: Attempt, tail: StreamTail, downstream: Downstream) -> None:
        """Pass a stream on as it comes."""
        reply = attempt.reply
        await downstream.start(reply.status, _passed(attempt))
        data = attempt.first
        try:
            while True:
                if data:
                    await downstream.write(data)
                if reply.ended:
                    break
                data = tail.feed(await reply.read())
            if tail.inside_event:
                raise _incomplete()
        except UpstreamError:
            if tail.inside_event:
                await downstream.write(b"\n\n")
            raise
        rest = tail.finish()
        if not tail.done and tail.failed is None:
            raise _incomplete()
        await downstream.write(rest, last=True)

    def _exchange(self, incoming: Incoming) -> Exchange:
        request_id = incoming.request_id or b"%032x" % self._rng.getrandbits(128)
        return Exchange(request_id=request_id, path=incoming.path, started=self._clock())


def upstream_body(raw: bytes, completion: Completion, upstream_name: str) -> bytes:
    """The caller's bytes, with the worker's name of the model, and asking for usage where a stream does not."""
    changes = {} if completion.model == upstream_name else {"model": msgspec.json.encode(upstream_name)}
    if completion.streams and not completion.asks_usage:
        return asking_usage(raw, changes, has_stream_options=completion.has_stream_options)
    return spliced(raw, changes) if changes else raw


def _trace(error: Exception) -> str:
    """Where *error* came from and what it is, without its text: that might quote the prompt."""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__


def _incomplete() -> ReplyBroken:
    return ReplyBroken("The worker ended the stream before it was complete")


def _passed(attempt: Attempt) -> Headers:
    return header_rules.downstream(attempt.reply.headers)
