"""Connections of a client that times every answer: cheap enough to share a core with the workers."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import httptools

from benchmarks.chat_bodies import PATH
from benchmarks.memory import address

EVENT_MARK = b"data: {"
ERROR_MARK = b'data: {"error"'  # an error in mid-stream, as OpenAI's SDKs look for it
DONE = b"data: [DONE]"
TAIL_BYTES = 32
"""Kept of a body: enough to see its end, and a mark that comes in two pieces."""


def wire(body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """A chat request as it goes over a connection that is kept."""
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer benchmark\r\n{more}content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(slots=True)
class Answer:
    """Outcome of one request. Times are of the monotonic clock."""

    due_s: float
    """Time at which it should have been sent; latencies count from here, so that a delayed sender hides nothing."""
    sent_s: float | None = None
    first_s: float | None = None
    """The first byte of the body."""
    last_s: float | None = None
    """The last one; None: it did not come."""
    status: int | None = None
    events: int = 0
    """Events of a stream, with usage, without ``[DONE]``."""
    end: str = "not connected"
    """"whole", or what was wrong: "not connected", "status 503", "cut", "error event", "late"."""

    @property
    def is_whole(self) -> bool:
        return self.end == "whole"


class Line(asyncio.Protocol):
    """One connection, kept as long as the other side keeps it; one request at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._answer = Answer(0.0)
        self._done: asyncio.Future[None] | None = None
        self._streams = False
        self._tail = b""
        self._has_error = False
        self.is_open = False

    @property
    def answer(self) -> Answer:
        """Answer to the current or the last request."""
        return self._answer

    async def ask(self, request: bytes, *, due_s: float, streams: bool, timeout_s: float) -> Answer:
        """Send *request*, and return when its answer is there or *timeout_s* have passed since it was due."""
        self._answer = Answer(due_s, sent_s=time.monotonic(), end="cut")
        self._streams, self._tail, self._has_error = streams, b"", False
        self._done = self._loop.create_future()
        self._transport.write(request)
        timer = self._loop.call_later(max(0.0, due_s + timeout_s - time.monotonic()), self._give_up)
        await self._done
        timer.cancel()
        return self._answer

    def close(self) -> None:
        self.is_open = False
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like asyncio's
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._answer.end = "no HTTP"
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.is_open = False
        self._finish()

    def _give_up(self) -> None:
        self._answer.end = "late"
        self.close()

    # httptools

    def on_headers_complete(self) -> None:
        self._answer.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if self._answer.first_s is None:
            self._answer.first_s = time.monotonic()
        if self._streams:
            joined = self._tail + body
            # A mark that was whole in the tail has been counted before; one that began there has not.
            before = self._tail.count(EVENT_MARK)
            self._answer.events += joined.count(EVENT_MARK) - before
            self._has_error = self._has_error or ERROR_MARK in joined
            self._tail = joined[-TAIL_BYTES:]

    def on_message_complete(self) -> None:
        answer = self._answer
        answer.last_s = time.monotonic()
        if answer.status != 200:
            answer.end = f"status {answer.status}"
        elif self._has_error:
            answer.end = "error event"
        elif not self._streams or DONE in self._tail:
            answer.end = "whole"
        if not self._parser.should_keep_alive():
            self.close()
        self._finish()

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)


@dataclass(slots=True)
class Lines:
    """The connections of one client to one target: the idle one that was used last is used first."""

    url: str
    _idle: deque[Line] = field(default_factory=deque)

    async def open(self, count: int) -> None:
        """Connect so many times ahead. Raises `OSError`."""
        self._idle.extend([await self.connect() for _ in range(count)])

    async def ask(self, request: bytes, *, due_s: float, streams: bool = False, timeout_s: float = 30.0) -> Answer:
        """The answer to *request*, over a new connection where none is idle. Never raises for what the target does."""
        line = self._take()
        if line is None:
            try:
                line = await self.connect()
            except OSError:
                return Answer(due_s)
        answer = await line.ask(request, due_s=due_s, streams=streams, timeout_s=timeout_s)
        if line.is_open:
            self._idle.append(line)
        return answer

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> Line | None:
        while self._idle:
            line = self._idle.pop()
            if line.is_open:
                return line
        return None

    async def connect(self) -> Line:
        """A connection beside those that are kept here. Raises `OSError`."""
        return (await asyncio.get_running_loop().create_connection(Line, *address(self.url)))[1]
