"""The caller's side of an exchange: status and headers once, then bytes, over ASGI."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from functools import lru_cache
from typing import Any

from gateway.answer_name import AnswerName, answer_name
from gateway.backends.backend import Headers
from gateway.endpoints.endpoint import Endpoint
from gateway.endpoints.faults import fault_in
from gateway.errors import GatewayError, MethodNotAllowed
from gateway.exchange import Exchange
from gateway.headers import UNBUFFERED, is_json, unbuffered
from gateway.sse import Tail

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_STREAM_HEADERS: Headers = [(b"content-type", b"text/event-stream; charset=utf-8"), *UNBUFFERED]
_KEEP_ALIVE = b": keep-alive\n\n"


class Downstream:
    """Sends one response, and says in it what was decided.

    One message at a time is on its way: a comment stays out where anything else is, and what comes then waits for it.
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
        "started",
        "stopped",
        "tail",
    )

    def __init__(self, send: Send, exchange: Exchange, endpoint: Endpoint) -> None:
        self._send = send
        self._exchange = exchange
        self._endpoint = endpoint
        self._answer_name: AnswerName | None = None
        self._comment: asyncio.Task[Any] | None = None  # that is sending one
        self._is_sending = False
        self._is_whole = False  # the response has a length, in which nothing else has a place
        self._is_closing = False  # its last message is on its way, or out
        self.started = False
        """Status and headers are out: whatever fails from here on can only be told in the body."""
        self.ended = False
        """All of the response is out."""
        self.is_quiet = False
        """Nothing was written since somebody set this."""
        self.tail: Tail | None = None
        """Of the stream that is being passed on."""
        self.answers_as: tuple[str, str] | None = None
        """The model's name that the caller used and the one that workers use; None: answers keep what backends say."""
        self.stopped: GatewayError | None = None
        """The stream is to end with this, at its next event."""

    @property
    def events(self) -> int:
        """Of the stream, that were passed on."""
        events = self._exchange.streamed_events
        return events if self.tail is None else events + self.tail.events

    @property
    def takes_error(self) -> bool:
        """An error can still be told: nothing is out yet, or a stream that has not ended."""
        return not self.started or not (self._is_whole or self.ended)

    async def start(self, status: int, headers: Headers) -> None:
        """Begin a stream. Where a keep-alive has begun it already, a comment tells who answers."""
        self._settle_name()
        if await self._has_started():
            await self.write(b": x-warmgate-worker: %b\n\n" % _worker_of(self._exchange))
            return
        await self._start(status, unbuffered(headers))

    async def _start(self, status: int, headers: Headers) -> None:
        said = _said_of(self._exchange) + _decided(self._exchange)
        await self._put({"type": "http.response.start", "status": status, "headers": headers + said})
        self._exchange.status = status
        self.started = True

    def write(self, data: bytes, *, last: bool = False) -> Coroutine[Any, Any, None]:
        """Waits while the caller reads more slowly than the worker writes."""
        # Not a coroutine of its own: one more for every event of every stream would be felt.
        if self._answer_name is not None:
            data = self._answer_name.events(data)
        return self._put({"type": "http.response.body", "body": data, "more_body": not last}, last=last)

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole response; after a keep-alive, what it says as the last event of the stream."""
        if await self._has_started():
            await self.write(self._endpoint.errors.event(fault_in(status, body), self._next_number), last=True)
            return
        self._is_whole = True
        self._settle_name()
        name, self._answer_name, self.answers_as = self._answer_name, None, None
        if name is not None and status == 200 and is_json(headers):
            body = name.whole(body)
        await self._start(status, [*headers, (b"content-length", b"%d" % len(body))])
        await self.write(body, last=True)

    def _settle_name(self) -> None:
        """It is known now who answers."""
        if self.answers_as is not None:
            asked, upstream_name = self.answers_as
            self._answer_name = answer_name(asked, upstream_name, fell_back=self._exchange.fell_back)

    async def keep_alive(self) -> None:
        """A comment, so that nobody on the way takes a silent stream for a dead one.

        Before the first byte it commits status and headers. Nothing happens where it has no place: in the middle of an
        event, beside another message, in a response that is whole or about to end.
        """
        is_inside = self.tail is not None and self.tail.inside_event
        if is_inside or self._is_sending or self._is_whole or self._is_closing or self._comment is not None:
            return
        self.is_quiet = False
        self._comment = asyncio.current_task()
        try:
            if not self.started:
                headers = _STREAM_HEADERS + _said_of(self._exchange)
                await self._send({"type": "http.response.start", "status": 200, "headers": headers})
                self._exchange.status = 200
                self.started = True
            await self._send({"type": "http.response.body", "body": _KEEP_ALIVE, "more_body": True})
        finally:
            self._comment = None

    async def fail(self, error: GatewayError) -> None:
        """Tell the caller of *error* where it still can be: as the response, or as the last event of the stream."""
        request_id = self._exchange.request_id.decode("ascii")
        has_started = await self._has_started()
        if not self.takes_error:
            return
        if has_started:
            event = self._endpoint.error_event(error, sequence_number=self._next_number, request_id=request_id)
            is_inside = self.tail is not None and self.tail.inside_event
            await self.write(b"\n\n" + event if is_inside else event, last=True)
            return
        headers = [(b"content-type", b"application/json"), *error.response_headers]
        if isinstance(error, MethodNotAllowed):
            headers.append((b"allow", b"POST, OPTIONS"))
        await self.answer(error.status, headers, self._endpoint.error_body(error, request_id=request_id))

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
        """As `started`, but a comment that is on its way counts: it may be the one that begins the response."""
        if self._comment is not None:
            await self._after_comment()
        return self.started

    async def _after_comment(self) -> None:
        while self._comment is not None:
            await asyncio.wait([self._comment])

    @property
    def _next_number(self) -> int:
        return self.tail.next_sequence_number if self.tail is not None else 0


def _worker_of(exchange: Exchange) -> bytes:
    return exchange.backend.encode("ascii", "replace") if exchange.backend is not None else b"none"


def _said_of(exchange: Exchange) -> Headers:
    said = [(b"x-request-id", exchange.request_id), *exchange.limits_left]
    if exchange.path.startswith("/v1/messages"):
        said.append((b"request-id", exchange.request_id))  # what Anthropic's SDK looks for
    return said


def _decided(exchange: Exchange) -> Headers:
    """Who answers, and why."""
    backend, strategy, choice = exchange.backend, exchange.strategy, exchange.choice
    if backend is None:
        return []
    said: Headers = [*_answers(backend, exchange.served_by, strategy)]
    if choice is not None:
        said.append((b"x-warmgate-model", choice.model.encode("ascii", "replace")))
        said.append((b"x-warmgate-rule", choice.rule.encode("ascii", "replace")))
    if exchange.prefill_worker is not None:
        said.append((b"x-warmgate-prefill-worker", exchange.prefill_worker.encode("ascii", "replace")))
    if strategy is not None and exchange.shows_hits:  # without a strategy a fallback was asked first
        blocks = exchange.hit_blocks
        said.append(_HIT_BLOCKS[blocks] if blocks < len(_HIT_BLOCKS) else _hit_blocks(blocks))
        said.append((b"x-warmgate-hit-tokens", str(int(exchange.hit_tokens)).encode("ascii")))
    return said


@lru_cache(maxsize=1024)
def _answers(backend: str, served_by: str, strategy: str | None) -> tuple[tuple[bytes, bytes], ...]:
    """The same tuples for the same words: their lines are then found by the server without comparing them."""
    worker = (b"x-warmgate-worker", backend.encode("ascii", "replace"))
    kind = (b"x-warmgate-backend", served_by.encode("ascii"))
    return (worker, kind) if strategy is None else (worker, kind, (b"x-warmgate-strategy", strategy.encode("ascii")))


def _hit_blocks(blocks: int) -> tuple[bytes, bytes]:
    return b"x-warmgate-hit-blocks", b"%d" % blocks


_HIT_BLOCKS: list[Any] = [_hit_blocks(blocks) for blocks in range(256)]
"""Those that are told most; not said to be tuples of bytes, which compiled would be put together anew each time."""
