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
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import msgspec

from gateway import headers as header_rules
from gateway.attempt import Attempt, Attempts
from gateway.backends.backend import Call, Headers
from gateway.body import Completion
from gateway.disconnects import Disconnects, Receive, Watch
from gateway.downstream import Downstream, Send
from gateway.endings import Endings
from gateway.errors import BodyTooLarge, GatewayError, MethodNotAllowed, ReplyBroken, UnsupportedMedia, UpstreamError
from gateway.exchange import Exchange
from gateway.models import Model, Models
from gateway.splice import asking_usage, spliced
from gateway.sse import StreamTail

_log = logging.getLogger(__name__)

Parse = Callable[[bytes], Completion]
Scope = MutableMapping[str, Any]
Fields = Mapping[bytes, bytes]

JSON = b"application/json"

CLIENT_CLOSED_REQUEST = 499
"""nginx's number for a caller that went away before it got an answer; it stands in logs and metrics only."""

CUT_SHORT = "CutShort"
"""The fault of a request whose task was cancelled by the server, as it does when it has waited long enough to stop."""


class CallerGone(Exception):
    """The caller closed the connection."""


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
        fields = header_rules.fields(scope["headers"])
        exchange = self._exchange(scope, fields)
        downstream = Downstream(send, exchange)
        try:
            await self._serve(exchange, scope, fields, receive, downstream)
        except CallerGone:
            exchange.error = CallerGone.__name__
            exchange.status = exchange.status or CLIENT_CLOSED_REQUEST
        except asyncio.CancelledError:
            exchange.error = CUT_SHORT
            exchange.status = exchange.status or GatewayError.status  # what the server tells in our place
            raise
        except GatewayError as error:
            exchange.error = error.reason
            await downstream.fail(error)
        except Exception as error:  # noqa: BLE001  # whatever it was, the caller gets an answer
            _log.error("request %s failed:\n%s", exchange.request_id.decode("ascii"), _trace(error))
            exchange.error = GatewayError.__name__
            await downstream.fail(GatewayError("The gateway failed to serve this request"))
        finally:
            self._endings.add(exchange, self._clock())

    async def _serve(
        self, exchange: Exchange, scope: Scope, fields: Fields, receive: Receive, downstream: Downstream
    ) -> None:
        raw = await self._read(scope, fields, receive)
        completion = self._parsers[exchange.path](raw)
        model = self._models.find(completion.model)
        exchange.model = model.name
        exchange.streams = completion.streams
        call = Call(
            method=b"POST",
            path=scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b""),
            headers=header_rules.upstream(scope["headers"], exchange.request_id),
            body=upstream_body(raw, completion, model.upstream_name),
            streams=completion.streams,
            model=completion.model,
        )
        request = model.request(completion, session_of(fields, model))
        watch = self._disconnects.begin(receive)
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

    def _exchange(self, scope: Scope, fields: Fields) -> Exchange:
        given = header_rules.request_id_of(fields)
        request_id = given or b"%032x" % self._rng.getrandbits(128)
        return Exchange(request_id=request_id, path=scope["path"], started=self._clock())

    async def _read(self, scope: Scope, fields: Fields, receive: Receive) -> bytes:
        """The whole body.

        Raises:
            MethodNotAllowed, UnsupportedMedia, BodyTooLarge: as named; told before the body is read where possible.
            CallerGone: it ended before the body did.
        """
        if scope["method"] != "POST":
            raise MethodNotAllowed(f"{scope['path']} takes POST, not {scope['method']}")
        _check_media(fields)
        announced = fields.get(b"content-length")
        if announced is not None and int(announced) > self._max_body_bytes:
            raise self._too_large()
        pieces: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise CallerGone
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > self._max_body_bytes:
                raise self._too_large()
            more = message.get("more_body", False)
        return b"".join(pieces)  # of one piece that is the piece itself

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"The body is larger than {self._max_body_bytes} bytes (server.max_body_bytes)")


def upstream_body(raw: bytes, completion: Completion, upstream_name: str) -> bytes:
    """The caller's bytes, with the worker's name of the model, and asking for usage where a stream does not."""
    changes = {} if completion.model == upstream_name else {"model": msgspec.json.encode(upstream_name)}
    if completion.streams and not completion.asks_usage:
        return asking_usage(raw, changes, has_stream_options=completion.has_stream_options)
    return spliced(raw, changes) if changes else raw


def session_of(fields: Fields, model: Model) -> str | None:
    """What the caller says in the model's session header."""
    value = fields.get(model.session_header)
    return value.decode("latin-1") if value else None


def _check_media(fields: Fields) -> None:
    media = fields.get(b"content-type", JSON)
    if media != JSON:
        media = media.split(b";", 1)[0].strip().lower()
        if media != JSON and not media.endswith(b"+json"):
            raise UnsupportedMedia("The content-type must be application/json")
    if fields.get(b"content-encoding", b"").strip().lower() not in (b"", b"identity"):
        raise UnsupportedMedia("A compressed body is not supported: leave content-encoding out")


def _trace(error: Exception) -> str:
    """Where *error* came from and what it is, without its text: that might quote the prompt."""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__


def _incomplete() -> ReplyBroken:
    return ReplyBroken("The worker ended the stream before it was complete")


def _passed(attempt: Attempt) -> Headers:
    return header_rules.downstream(attempt.reply.headers)
