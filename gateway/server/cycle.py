"""Client request and its response, with the ASGI functions `receive` and `send` for the application.

1. The response head is sent together with the first bytes of the body, in one write. If the application fails before
   that, the client gets an error response instead, as ASGI requires.
2. `receive` waits only if no data has arrived. `send` waits only while the client reads too slowly.
"""

import asyncio
import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final, Protocol

from gateway.protocol.errors import GatewayError
from gateway.server.asgi import App, Message
from gateway.server.response_writer import ResponseWriter

_log = logging.getLogger(__name__)

_JOIN_UP_TO_BYTES: Final = 65_536  # copying this much costs less than a second buffer on its way through the transport
_DISCONNECT: Final[Message] = {"type": "http.disconnect"}
_STATUS_LINES: Final = {
    status.value: b"HTTP/1.1 %d %s" % (status, status.phrase.encode()) for status in HTTPStatus if status >= 200
}
_LINE_STARTS: Final = {
    name: b"\r\n%b: " % name
    for name in (
        b"cache-control",
        b"content-length",
        b"content-type",
        b"server",
        b"vary",
        b"x-accel-buffering",
        b"x-request-id",
        b"x-warmgate-backend",
        b"x-warmgate-hit-blocks",
        b"x-warmgate-hit-tokens",
        b"x-warmgate-strategy",
        b"x-warmgate-worker",
        b"x-ratelimit-limit-requests",
        b"x-ratelimit-limit-tokens",
        b"x-ratelimit-remaining-requests",
        b"x-ratelimit-remaining-tokens",
        b"x-ratelimit-reset-requests",
        b"x-ratelimit-reset-tokens",
    )
}
"""Text before the value of a header, by the names of the most frequent headers."""
_BODILESS: Final = frozenset({204, 304})
_CONNECTION: Final = len(b"connection")
_DATE: Final = len(b"date")
_CONTENT_LENGTH: Final = len(b"content-length")
_TRANSFER_ENCODING: Final = len(b"transfer-encoding")
_LINE_FEED: Final = ord(b"\n")
_CARRIAGE_RETURN: Final = ord(b"\r")
_NUL: Final = 0
_ZERO: Final = ord(b"0")
_NINE: Final = ord(b"9")


class CycleConnection(Protocol):
    """Methods of a client connection that are needed for one request and its response."""

    @property
    def is_last(self) -> bool:
        """Whether a response that begins now is the last one on its connection."""
        ...

    def wants_close(self, cycle: "Cycle") -> bool:
        """Return whether the unread body of *cycle* is so long that it is better to close the connection than to read
        the body.
        """
        ...

    def wants_body(self) -> None:
        """Read more of the request body from the client, because the application has consumed all data that has
        arrived.
        """
        ...

    def completed(self, cycle: "Cycle") -> None:
        """Start the next request, because the response of *cycle* is complete."""
        ...

    def cut(self) -> None:
        """Close the connection before the response is complete, so that the client notices that the response is
        incomplete.
        """
        ...

    def reuse_task(self, task: "asyncio.Task[None]") -> "asyncio.Future[Cycle] | None":
        """Return a future of the next request for *task*, or None if the task must end. If no request follows, the
        future is canceled.
        """
        ...


async def serve(cycle: "Cycle | None", app: App) -> None:
    """Run *app* for the request *cycle* and later ones. Every client gets an answer or a closed connection."""
    while cycle is not None:
        try:
            await app(cycle.scope, cycle.receive, cycle.send)
        except Exception:  # noqa: BLE001  # the client gets an answer after any failure
            _log.exception("the application raised an exception while it served a request")
            cycle.failed()
        except asyncio.CancelledError:  # the server stops, and its grace is over
            cycle.cancelled()
            raise
        else:
            cycle.returned()
        next_cycle = cycle.reuse_task()
        cycle = None  # keep nothing of a request while the client sends no other
        if next_cycle is not None:
            cycle = await next_cycle


class Cycle:
    """Request from the time when its head is complete. If *is_persistent* is true, the client wants to keep the
    connection open.
    """

    __slots__ = (
        "_connection",
        "_has_news",
        "_head",
        "_is_chunked",
        "_is_head",
        "_loop",
        "_pieces",
        "_remaining",
        "_waiters",
        "_writer",
        "body_complete",
        "disconnected",
        "expects_continue",
        "is_persistent",
        "response_complete",
        "response_started",
        "scope",
        "task",
        "unread_bytes",
    )

    def __init__(
        self,
        scope: Message,
        connection: CycleConnection,
        writer: ResponseWriter,
        *,
        loop: asyncio.AbstractEventLoop,
        is_persistent: bool,
        expects_continue: bool,
    ) -> None:
        self.scope = scope
        self.is_persistent = is_persistent
        self.body_complete = False
        self.unread_bytes = 0
        """Number of bytes of the request body that have arrived but that the application has not read."""
        self.expects_continue = expects_continue
        """Whether the client waits for `100 Continue` before it sends the request body."""
        self.disconnected = False
        self.task: asyncio.Task[None] | None = None
        """Task that serves the request, until it has served it. A later reference would keep the task in memory."""
        self.response_started = False
        self.response_complete = False
        self._connection = connection
        self._writer = writer
        self._loop = loop
        self._pieces: list[bytes] = []
        self._has_news = False
        self._waiters: tuple[asyncio.Future[None], ...] = ()
        self._head = b""
        self._is_head = scope["method"] == "HEAD"
        self._is_chunked = False
        self._remaining: int | None = None

    # The end of the application

    def failed(self) -> None:
        """Answer with status 500 if no part of the response has been sent. Otherwise, close the connection."""
        if self.disconnected or self.response_complete:
            return
        if self.has_left:
            self._connection.cut()
            return
        body = GatewayError("The gateway failed to serve this request").to_body()
        length = b"%d" % len(body)
        headers = [(b"content-type", b"application/json"), (b"content-length", length), (b"connection", b"close")]
        self._start(500, headers)
        self._write(body, last=True)

    def cancelled(self) -> None:
        self.task = None
        if not self.response_complete:  # otherwise the connection may serve the next request
            self._connection.cut()

    def returned(self) -> None:
        if not self.response_complete and not self.disconnected:
            _log.error("the application returned before its response was complete")
            self.failed()

    def reuse_task(self) -> "asyncio.Future[Cycle] | None":
        task, self.task = self.task, None
        return None if task is None else self._connection.reuse_task(task)

    # The side of the connection

    @property
    def has_left(self) -> bool:
        """Whether any part of the response has been sent."""
        return self.response_started and not self._head

    def body_came(self, data: bytes) -> None:
        self._pieces.append(data)
        self.unread_bytes += len(data)
        self._has_news = True
        self.expects_continue = False
        if self._waiters:
            self._wake()

    def body_ended(self) -> None:
        self.body_complete = True
        self._has_news = True
        self.expects_continue = False
        if self._waiters:
            self._wake()

    def lost(self) -> None:
        """Record that the client has disconnected."""
        self.disconnected = True
        self._wake()

    # The side of the application

    async def receive(self) -> Message:
        """Return the next part of the request body, or `http.disconnect` if the client has gone or the response is
        complete.
        """
        while not (self._has_news or self.disconnected or self.response_complete):
            if self.expects_continue:
                self.expects_continue = False
                if not self.response_started:
                    self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._connection.wants_body()
            await self._news()
        if self.disconnected or self.response_complete:
            return _DISCONNECT
        pieces, self._pieces = self._pieces, []
        self.unread_bytes = 0
        self._has_news = False
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return {"type": "http.request", "body": body, "more_body": not self.body_complete}

    async def send(self, message: Message) -> None:
        """Send one ASGI message of the response.

        Raises:
            RuntimeError: if the message is out of order or not valid HTTP.
        """
        if not self._writer.is_writable and not self.disconnected:
            await self._writer.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if kind == "http.response.body" and self.response_started and not self.response_complete:
            self._write(message.get("body", b""), last=not message.get("more_body", False))
        elif kind == "http.response.start" and not self.response_started:
            self._start(message["status"], message.get("headers", ()))
        else:
            raise RuntimeError(f"the ASGI message {kind!r} is not allowed at this point of a response")

    def _start(self, status: int, headers: Iterable[Any]) -> None:
        """Build the response head and choose the framing of the body. ASGI requires header names in lower case."""
        pieces = [_STATUS_LINES.get(status) or _status_line(status)]
        length: int | None = None
        is_persistent = self.is_persistent and not self._connection.is_last
        is_persistent = is_persistent and not self.expects_continue  # the client may send the body or not
        if is_persistent and not self.body_complete and self._connection.wants_close(self):
            is_persistent = False
        for each in headers:
            header: tuple[Any, ...] = each if isinstance(each, tuple) else tuple(each)
            name: bytes = header[0]
            value: bytes = header[1]
            size = len(name)  # faster to compare than the name
            if size == _CONTENT_LENGTH and name == b"content-length":
                length = _only_length(value, length)
            elif size == _TRANSFER_ENCODING and name == b"transfer-encoding":
                continue
            elif size == _CONNECTION and name == b"connection" and b"close" in value.lower():
                is_persistent = False
                continue
            elif size == _DATE and name == b"date":  # the server adds its own
                continue
            pieces.append(_LINE_STARTS.get(name) or _line_start(name))
            pieces.append(value)
        _check(b"".join(pieces[2::2]))
        is_chunked = False
        if self._is_head or status in _BODILESS:
            length = 0
        elif length is None:
            if self.scope["http_version"] == "1.1":
                is_chunked = True
                pieces.append(b"\r\ntransfer-encoding: chunked")
            else:
                is_persistent = False  # for HTTP/1.0, the end of the connection is the end of the body
        if not is_persistent:
            pieces.append(b"\r\nconnection: close")
        elif self.scope["http_version"] != "1.1":
            pieces.append(b"\r\nconnection: keep-alive")
        pieces.append(b"\r\n")
        pieces.append(self._writer.date_line())
        pieces.append(b"\r\n")
        self._head = b"".join(pieces)
        self._is_chunked = is_chunked
        self._remaining = length
        self.is_persistent = is_persistent
        self.response_started = True

    def _write(self, body: bytes, *, last: bool) -> None:
        head, self._head = self._head, b""
        if self._is_chunked:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if last:
                self._writer.write(b"".join((head, chunk, b"0\r\n\r\n")))
            else:
                self._writer.write_soon(head + chunk)
        elif self._is_head:
            self._writer.write(head)
        else:
            self._write_counted(head, body, last=last)
        if last:
            self.response_complete = True
            if self._waiters:
                self._wake()
            self._connection.completed(self)

    def _write_counted(self, head: bytes, body: bytes, *, last: bool) -> None:
        """Write a part of the body without chunked encoding, and check that the body has the announced length."""
        if self._remaining is not None:
            self._remaining -= len(body)
            if self._remaining < 0 or (last and self._remaining):
                self._remaining = 0
                raise RuntimeError("the length of the response body differs from its content-length header")
        if not head or len(body) <= _JOIN_UP_TO_BYTES:
            self._writer.write(head + body)
        else:
            self._writer.write(head)
            self._writer.write(body)

    async def _news(self) -> None:
        waiter = self._loop.create_future()
        self._waiters = (*[other for other in self._waiters if not other.done()], waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _only_length(value: bytes, former: int | None) -> int:
    """Return the number in *value*, the value of a `content-length` header. Raise RuntimeError if *former*, the number
    in an earlier such header, is not None.
    """
    if former is not None or not value:
        raise _no_length()
    length = 0
    for digit in value:  # ten times as fast as int(), which also accepts signs and spaces
        if not _ZERO <= digit <= _NINE:
            raise _no_length()
        length = 10 * length + digit - _ZERO
    return length


def _line_start(name: bytes) -> bytes:
    """Return the text before the value of the header *name*. Raise the error of `_check`."""
    _check(name)
    return b"\r\n" + name + b": "


def _check(said: bytes) -> None:
    """Check the names or values *said* of headers. One check of all values takes a tenth of the time of a check of each
    value, and counting the line ends of the whole head would take three times as long.

    Raises:
        RuntimeError: if *said* contains a line break, which would start another header, or a NUL byte.
    """
    if _LINE_FEED in said or _CARRIAGE_RETURN in said or _NUL in said:
        raise RuntimeError("a response header contains a line break or NUL byte")


def _no_length() -> RuntimeError:
    return RuntimeError("a response must have only one content-length header, with one number")


def _status_line(status: int) -> bytes:
    """Return the HTTP status line for a status code without a standard reason phrase."""
    if not 200 <= status <= 999:
        raise RuntimeError(f"{status} is not a valid HTTP response status")
    return b"HTTP/1.1 %d " % status
