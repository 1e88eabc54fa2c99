"""Answer of the gateway to one request, sent to Envoy in the form that the state of the request requires.

1. If Envoy has not received an answer of a worker, or the gateway answers with another status, the answer is an
   immediate response, which replaces everything that Envoy has.
2. Otherwise, Envoy changes the headers of the worker's answer, and sends the bytes that the gateway returns.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from gateway.picker import messages
from gateway.picker.dropped import dropped_headers
from gateway.picker.heads import answer_changes
from gateway.protocol.headers import Headers

Write = Callable[[Iterable[messages.Message]], Awaitable[None]]
"""Function that sends messages to Envoy."""


class WorkerHead:
    """Status and headers of a worker's answer."""

    __slots__ = ("ended", "has_trailers", "headers", "status")

    def __init__(self, status: int, headers: Headers, *, ended: bool) -> None:
        self.status = status
        self.headers = headers
        self.ended = ended
        """Whether the answer has no body."""
        self.has_trailers = False
        """Whether trailers have followed the body."""


class Answer:
    """Answer to one request. The messages are those of ASGI."""

    def __init__(self, write: Write, mode: int, extra: Callable[[], Headers]) -> None:
        """Create the answer. *mode* is Envoy's mode of answer bodies. *extra* returns headers to add to the answer of a
        worker.
        """
        self._write = write
        self.mode = mode
        """Mode in which Envoy passes on the bodies of answers."""
        self._extra = extra
        self._status = 0
        self._headers: Headers = []
        self._pieces: list[bytes] = []
        self._is_streamed = False
        self.head: WorkerHead | None = None
        """Status and headers of the worker's answer, or None before they have arrived."""
        self.is_immediate = False
        """Whether Envoy answers the request itself."""
        self.ended = False
        """Whether the whole answer was sent."""

    async def send(self, message: Any) -> None:
        """Send a message of ASGI: the status and headers, or a part of the body."""
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], message["headers"]
            await self._begin()
            return
        data, is_last = message.get("body", b""), not message.get("more_body", False)
        if self._is_streamed:
            if data or is_last:
                await self._stream(data, is_last)
        else:
            self._pieces.append(data)
            if is_last:
                await self._send_whole(b"".join(self._pieces))
        self.ended = is_last

    async def _begin(self) -> None:
        head = self.head
        if head is None or head.status != self._status or head.ended or self.mode != messages.FULL_DUPLEX_STREAMED:
            return
        self._is_streamed = True
        await self._write([messages.answer_head(answer_changes(head.headers, self._headers + self._extra()))])

    async def _stream(self, data: bytes, is_last: bool) -> None:
        assert self.head is not None, "a streamed answer has a head"
        has_trailers = is_last and self.head.has_trailers
        await self._write(messages.answer_pieces(data, ended=is_last and not has_trailers))
        if has_trailers:
            await self._write([messages.answer_trailers_continued()])

    async def _send_whole(self, body: bytes) -> None:
        head = self.head
        if head is None or head.status != self._status or (head.ended and body):
            self.is_immediate = True
            headers = self._headers + dropped_headers(self._status, body)
            await self._write([messages.immediate(self._status, headers, body)])
        elif head.ended:
            await self._write([messages.answer_head(answer_changes(head.headers, self._headers + self._extra()))])
        elif self.mode == messages.BUFFERED:
            changes = answer_changes(head.headers, self._headers + self._extra())
            await self._write([messages.buffered_answer(changes, body)])
