"""Send the response to the caller over ASGI."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from functools import lru_cache
from typing import Any

from gateway.protocol.answer_name import AnswerName, answer_name
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.endpoints.faults import fault_in
from gateway.protocol.errors import GatewayError, MethodNotAllowed
from gateway.protocol.headers import UNBUFFERED, Headers, is_json, unbuffered
from gateway.protocol.sse import StreamObserver
from gateway.proxy.exchange import Exchange

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_STREAM_HEADERS: Headers = [(b"content-type", b"text/event-stream; charset=utf-8"), *UNBUFFERED]
_KEEP_ALIVE = b": keep-alive\n\n"


class Downstream:
    """Sender of one response, with headers about the routing decision.

    Only one ASGI message is sent at a time. A keep-alive comment is omitted while another message is being sent, and
    other messages wait until a comment is sent.
    """

    __slots__ = (
        "_answer_name",
        "_comment",
        "_endpoint",
        "_exchange",
        "_is_closing",
        "_is_sending",
        "_is_whole",
        "_send",
        "answers_as",
        "ended",
        "is_quiet",
        "observer",
        "started",
        "stopped",
    )

    def __init__(self, send: Send, exchange: Exchange, endpoint: Endpoint) -> None:
        self._send = send
        self._exchange = exchange
        self._endpoint = endpoint
        self._answer_name: AnswerName | None = None
        self._comment: asyncio.Task[Any] | None = None  # the task that sends a comment
        self._is_sending = False
        self._is_whole = False  # the response has a content length, so nothing may be added
        self._is_closing = False  # its last message is being sent, or was sent
        self.started = False
        """Whether status and headers have been sent, so that later errors can be reported only in the body."""
        self.ended = False
        """Whether the whole response has been sent."""
        self.is_quiet = False
        """Whether nothing has been written since `KeepAlive` last set this flag."""
        self.observer: StreamObserver | None = None
        """Observer of the stream that is being sent, or None."""
        self.answers_as: tuple[str, str] | None = None
        """Model name that the caller sent, and model name that the workers use, or None if answers keep the backend's
        model name.
        """
        self.stopped: GatewayError | None = None
        """Error that ends the stream before its next event, or None."""

    @property
    def events(self) -> int:
        """Number of stream events that were sent to the caller."""
        events = self._exchange.streamed_events
        return events if self.observer is None else events + self.observer.events

    @property
    def takes_error(self) -> bool:
        """Whether an error can still be sent, because nothing has been sent or the stream has not ended."""
        return not self.started or not (self._is_whole or self.ended)

    async def start(self, status: int, headers: Headers) -> None:
        """Begin a streamed response. If a keep-alive comment has already begun it, another comment names the worker."""
        self._settle_name()
        if await self._has_started():
            await self.write(b": x-warmgate-worker: %b\n\n" % _worker_of(self._exchange))
            return
        await self._start(status, unbuffered(headers))

    async def _start(self, status: int, headers: Headers) -> None:
        said = _common_headers(self._exchange) + _decision_headers(self._exchange)
        await self._put({"type": "http.response.start", "status": status, "headers": headers + said})
        self._exchange.status = status
        self.started = True

    def write(self, data: bytes, *, last: bool = False) -> Coroutine[Any, Any, None]:
        """Return a coroutine that sends *data*, and that waits while the caller reads too slowly."""
        # Returns the coroutine of `_put`: one more for each event of each stream would cost too much.
        if self._answer_name is not None:
            data = self._answer_name.events(data)
        return self._put({"type": "http.response.body", "body": data, "more_body": not last}, last=last)

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a complete response, or an error event if a keep-alive comment has already begun a stream."""
        if await self._has_started():
            await self.write(self._endpoint.errors.event(fault_in(status, body), self._next_number), last=True)
            return
        self._is_whole = True
        body = self.as_asked(status, headers, body)
        self._answer_name = self.answers_as = None
        await self._start(status, [*headers, (b"content-length", b"%d" % len(body))])
        await self.write(body, last=True)

    def as_asked(self, status: int, headers: Headers, body: bytes) -> bytes:
        """Return the complete answer *body* with the model name that the caller sent. The backend must be known."""
        self._settle_name()
        name = self._answer_name
        return body if name is None or status != 200 or not is_json(headers) else name.whole(body)

    def record(self, record: Callable[[bytes], None]) -> None:
        """Call *record* with all further bytes of the response, without keep-alive comments."""
        send = self._send

        async def recording(message: MutableMapping[str, Any]) -> None:
            body = message.get("body")
            if body and body != _KEEP_ALIVE:
                record(body)
            await send(message)

        self._send = recording

    def _settle_name(self) -> None:
        """Choose the model name that appears in the answer. The backend must be known."""
        if self.answers_as is not None:
            asked, upstream_name = self.answers_as
            self._answer_name = answer_name(asked, upstream_name, fell_back=self._exchange.fell_back)

    async def keep_alive(self) -> None:
        """Send a comment in the stream, so that proxies do not close a silent connection.

        A comment before the first byte of the answer also sends the status and headers. No comment is sent inside an
        event or while another message is being sent. A response with a content length, or one that is about to end,
        gets no comment either.
        """
        is_inside = self.observer is not None and self.observer.inside_event
        if is_inside or self._is_sending or self._is_whole or self._is_closing or self._comment is not None:
            return
        self.is_quiet = False
        self._comment = asyncio.current_task()
        try:
            if not self.started:
                headers = _STREAM_HEADERS + _common_headers(self._exchange)
                await self._send({"type": "http.response.start", "status": 200, "headers": headers})
                self._exchange.status = 200
                self.started = True
            await self._send({"type": "http.response.body", "body": _KEEP_ALIVE, "more_body": True})
        finally:
            self._comment = None

    async def fail(self, error: GatewayError) -> None:
        """Send *error* as the response, or as the last event of the stream. If neither is possible any more, do
        nothing.
        """
        request_id = self._exchange.request_id.decode("ascii")
        has_started = await self._has_started()
        if not self.takes_error:
            return
        if has_started:
            event = self._endpoint.error_event(error, sequence_number=self._next_number, request_id=request_id)
            is_inside = self.observer is not None and self.observer.inside_event
            await self.write(b"\n\n" + event if is_inside else event, last=True)
            return
        headers = [(b"content-type", b"application/json"), *error.response_headers]
        if isinstance(error, MethodNotAllowed):
            headers.append((b"allow", b"POST, OPTIONS"))
        delivery = self._exchange.delivery
        status = error.status if delivery is None else delivery.status_of(error)
        await self.answer(status, headers, self._endpoint.error_body(error, request_id=request_id))

    async def _put(self, message: MutableMapping[str, Any], *, last: bool = False) -> None:
        if self._comment is not None:
            await self._after_comment()
        self.is_quiet = False
        self._is_closing = last
        self._is_sending = True
        try:
            await self._send(message)
        finally:
            self._is_sending = False
        self.ended = last

    async def _has_started(self) -> bool:
        """Return whether the response has started. First wait for any comment that is being sent, because it might
        start the response.
        """
        if self._comment is not None:
            await self._after_comment()
        return self.started

    async def _after_comment(self) -> None:
        while self._comment is not None:
            await asyncio.wait([self._comment])

    @property
    def _next_number(self) -> int:
        return self.observer.next_sequence_number if self.observer is not None else 0


def _worker_of(exchange: Exchange) -> bytes:
    return exchange.backend.encode("ascii", "replace") if exchange.backend is not None else b"none"


def _common_headers(exchange: Exchange) -> Headers:
    said = [(b"x-request-id", exchange.request_id), *exchange.limits_left]
    if exchange.path.startswith("/v1/messages"):
        said.append((b"request-id", exchange.request_id))  # what Anthropic's SDK looks for
    return said


def _decision_headers(exchange: Exchange) -> Headers:
    """Return the response headers that name the backend and explain why it was chosen."""
    backend, strategy, choice = exchange.backend, exchange.strategy, exchange.choice
    if backend is None:
        return []
    said: Headers = [*_backend_headers(backend, exchange.served_by, strategy)]
    if choice is not None:
        said.append((b"x-warmgate-model", choice.model.encode("ascii", "replace")))
        said.append((b"x-warmgate-rule", choice.rule.encode("ascii", "replace")))
    if exchange.prefill_worker is not None:
        said.append((b"x-warmgate-prefill-worker", exchange.prefill_worker.encode("ascii", "replace")))
    if exchange.answer_usd is not None:
        said.append((b"x-warmgate-cost-usd", b"%.9f" % exchange.answer_usd))
    if strategy is not None and exchange.shows_hits:  # there is no strategy if a fallback was asked first
        blocks = exchange.hit_blocks
        said.append(_HIT_BLOCKS[blocks] if blocks < len(_HIT_BLOCKS) else _hit_blocks(blocks))
        said.append((b"x-warmgate-hit-tokens", str(int(exchange.hit_tokens)).encode("ascii")))
    return said


@lru_cache(maxsize=1024)
def _backend_headers(backend: str, served_by: str, strategy: str | None) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers that name the backend. Equal arguments give the same object, so the server finds the encoded
    lines without comparing headers.
    """
    worker = (b"x-warmgate-worker", backend.encode("ascii", "replace"))
    kind = (b"x-warmgate-backend", served_by.encode("ascii"))
    return (worker, kind) if strategy is None else (worker, kind, (b"x-warmgate-strategy", strategy.encode("ascii")))


def _hit_blocks(blocks: int) -> tuple[bytes, bytes]:
    return b"x-warmgate-hit-blocks", b"%d" % blocks


_HIT_BLOCKS: list[Any] = [_hit_blocks(blocks) for blocks in range(256)]
"""Cached headers for the most frequent numbers of cached blocks. The element type is Any, because compiled code would
rebuild tuples of bytes on each access.
"""
