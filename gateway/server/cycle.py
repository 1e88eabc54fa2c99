"""One request of a client and the response to it, as the application sees them: `receive` and `send` of ASGI.

1. The head leaves together with the first of the body: one write, and nothing is sent for an application that fails
   before it has anything to say (ASGI asks for this order).
2. `receive` suspends only where nothing has come, and `send` only while the client reads too slowly.
"""

import asyncio
import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final, Protocol

from gateway.errors import GatewayError
from gateway.server.asgi import App, Message

_log = logging.getLogger(__name__)

_JOIN_UP_TO_BYTES: Final = 65_536  # copying this much costs less than a second buffer on its way through the transport
_DISCONNECT: Final[Message] = {"type": "http.disconnect"}
_STATUS_LINES: Final = {
    status.value: b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus if status >= 200
}
_BODILESS: Final = frozenset({204, 304})
_CONNECTION: Final = len(b"connection")
_DATE: Final = len(b"date")
_CONTENT_LENGTH: Final = len(b"content-length")
_TRANSFER_ENCODING: Final = len(b"transfer-encoding")
_NUL: Final = 0
_ZERO: Final = ord(b"0")
_NINE: Final = ord(b"9")


class Line(Protocol):
    """The connection, as a cycle needs it."""

    @property
    def is_writable(self) -> bool:
        """False while the client reads too slowly."""
        ...

    @property
    def is_last(self) -> bool:
        """Whether a response that begins at this moment has to be the last one."""
        ...

    def date_line(self) -> bytes:
        """The header `date` of a response that begins now, as a line."""
        ...

    def wants_close(self, cycle: "Cycle") -> bool:
        """Whether more of its body is to come than is read of one that nobody wants."""
        ...

    async def drained(self) -> None:
        """Wait until it is writable, or lost."""
        ...

    def write(self, data: bytes) -> None: ...

    def write_soon(self, data: bytes) -> None:
        """Write with what comes in the same turn of the loop, and is there one turn later: under load that is several
        events of a stream, and a send costs as much as all else that is done for one.
        """
        ...

    def wants_body(self) -> None:
        """All that came of the body has been taken: read on."""
        ...

    def completed(self, cycle: "Cycle") -> None:
        """The response is out."""
        ...

    def cut(self) -> None:
        """Close without having completed the response: that is how the client learns that it is not complete."""
        ...

    def following(self) -> "asyncio.Future[Cycle] | None":
        """The next request that the current task is to serve, as soon as there is one; cancelled if there will be none.

        None: the task has to end.
        """
        ...


async def serve(cycle: "Cycle | None", app: App) -> None:
    """Let *app* serve the request, and then those that follow; whatever it does, each gets an answer or a closed
    connection.
    """
    while cycle is not None:
        try:
            await app(cycle.scope, cycle.receive, cycle.send)
        except Exception:  # noqa: BLE001  # whatever it was, the client gets an answer
            _log.exception("the application failed")
            cycle.failed()
        except asyncio.CancelledError:  # the server stops, and its grace is over
            cycle.cancelled()
            raise
        else:
            cycle.returned()
        following = cycle.following()
        cycle = None  # nothing of a request stays while its client has no other
        if following is not None:
            cycle = await following


class Cycle:
    """Made once the head of a request is complete. *is_persistent*: the client wants to go on afterwards."""

    __slots__ = (
        "_has_news",
        "_head",
        "_is_chunked",
        "_is_head",
        "_line",
        "_loop",
        "_pieces",
        "_remaining",
        "_waiters",
        "body_complete",
        "disconnected",
        "expects_continue",
        "is_persistent",
        "response_complete",
        "response_started",
        "scope",
        "unread_bytes",
    )

    def __init__(
        self,
        scope: Message,
        line: Line,
        *,
        loop: asyncio.AbstractEventLoop,
        is_persistent: bool,
        expects_continue: bool,
    ) -> None:
        self.scope = scope
        self.is_persistent = is_persistent
        self.body_complete = False
        self.unread_bytes = 0
        """Of the body, held here because the application has not asked for them."""
        self.expects_continue = expects_continue
        """The client holds the body back until the application asks for it."""
        self.disconnected = False
        self.response_started = False
        self.response_complete = False
        self._line = line
        self._loop = loop
        self._pieces: list[bytes] = []
        self._has_news = False
        self._waiters: tuple[asyncio.Future[None], ...] = ()
        self._head = b""
        self._is_head = scope["method"] == "HEAD"
        self._is_chunked = False
        self._remaining: int | None = None

    # The application's end

    def failed(self) -> None:
        """Answer 500 where nothing has left yet; else only the end of the connection can tell."""
        if self.disconnected or self.response_complete:
            return
        if self.has_left:
            self._line.cut()
            return
        body = GatewayError("The gateway failed to serve this request").to_body()
        length = b"%d" % len(body)
        headers = [(b"content-type", b"application/json"), (b"content-length", length), (b"connection", b"close")]
        self._start(500, headers)
        self._write(body, last=True)

    def cancelled(self) -> None:
        if not self.response_complete:  # else the line may serve the next
            self._line.cut()

    def returned(self) -> None:
        if not self.response_complete and not self.disconnected:
            _log.error("the application ended without completing its response")
            self.failed()

    def following(self) -> "asyncio.Future[Cycle] | None":
        return self._line.following()

    # The connection's side

    @property
    def has_left(self) -> bool:
        """Whether the client has been sent some of the response."""
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
        """The client has gone."""
        self.disconnected = True
        self._wake()

    # The application's side

    async def receive(self) -> Message:
        """The next of the body, or word that nobody listens any more."""
        while not (self._has_news or self.disconnected or self.response_complete):
            if self.expects_continue:
                self.expects_continue = False
                if not self.response_started:
                    self._line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._line.wants_body()
            await self._news()
        if self.disconnected or self.response_complete:
            return _DISCONNECT
        pieces, self._pieces = self._pieces, []
        self.unread_bytes = 0
        self._has_news = False
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return {"type": "http.request", "body": body, "more_body": not self.body_complete}

    async def send(self, message: Message) -> None:
        """Take one message of the response.

        Raises:
            RuntimeError: it cannot stand here, or makes no HTTP.
        """
        if not self._line.is_writable and not self.disconnected:
            await self._line.drained()
        if self.disconnected:
            return
        kind = message["type"]
        if kind == "http.response.body" and self.response_started and not self.response_complete:
            self._write(message.get("body", b""), last=not message.get("more_body", False))
        elif kind == "http.response.start" and not self.response_started:
            self._start(message["status"], message.get("headers", ()))
        else:
            raise RuntimeError(f"{kind} cannot be sent here")

    def _start(self, status: int, headers: Iterable[Any]) -> None:
        """Put the head together of pairs, names in lower case as ASGI has them. It tells how the body is framed."""
        pieces = [_STATUS_LINES.get(status) or _status_line(status)]
        ends = 2
        length: int | None = None
        is_persistent = self.is_persistent and not self._line.is_last
        is_persistent = is_persistent and not self.expects_continue  # a body not asked for may come or not
        if is_persistent and not self.body_complete and self._line.wants_close(self):
            is_persistent = False
        for each in headers:
            header: tuple[Any, ...] = each if isinstance(each, tuple) else tuple(each)
            name: bytes = header[0]
            value: bytes = header[1]
            size = len(name)  # compared sooner than the name
            if size == _CONTENT_LENGTH and name == b"content-length":
                length = _only_length(value, length)
            elif size == _TRANSFER_ENCODING and name == b"transfer-encoding":
                continue
            elif size == _CONNECTION and name == b"connection" and b"close" in value.lower():
                is_persistent = False
                continue
            elif size == _DATE and name == b"date":  # there is one already
                continue
            pieces.append(name)
            pieces.append(b": ")
            pieces.append(value)
            pieces.append(b"\r\n")
            ends += 1
        is_chunked = False
        if self._is_head or status in _BODILESS:
            length = 0
        elif length is None:
            if self.scope["http_version"] == "1.1":
                is_chunked = True
                pieces.append(b"transfer-encoding: chunked\r\n")
                ends += 1
            else:
                is_persistent = False  # to HTTP/1.0 a body of unknown length ends with the connection
        if not is_persistent:
            pieces.append(b"connection: close\r\n")
            ends += 1
        elif self.scope["http_version"] != "1.1":
            pieces.append(b"connection: keep-alive\r\n")
            ends += 1
        pieces.append(self._line.date_line())
        pieces.append(b"\r\n")
        self._head = _checked(b"".join(pieces), ends + 1)
        self._is_chunked = is_chunked
        self._remaining = length
        self.is_persistent = is_persistent
        self.response_started = True

    def _write(self, body: bytes, *, last: bool) -> None:
        head, self._head = self._head, b""
        if self._is_chunked:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if last:
                self._line.write(b"".join((head, chunk, b"0\r\n\r\n")))
            else:
                self._line.write_soon(head + chunk)
        elif self._is_head:
            self._line.write(head)
        else:
            self._write_counted(head, body, last=last)
        if last:
            self.response_complete = True
            if self._waiters:
                self._wake()
            self._line.completed(self)

    def _write_counted(self, head: bytes, body: bytes, *, last: bool) -> None:
        """Of a body whose length the head told, unless that is None: then the connection's end tells."""
        if self._remaining is not None:
            self._remaining -= len(body)
            if self._remaining < 0 or (last and self._remaining):
                self._remaining = 0
                raise RuntimeError("the body is not as long as content-length says")
        if not head or len(body) <= _JOIN_UP_TO_BYTES:
            self._line.write(head + body)
        else:
            self._line.write(head)
            self._line.write(body)

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
    """That *value* of content-length says; *former*: what another has said before."""
    if former is not None or not value:
        raise _no_length()
    length = 0
    for digit in value:  # a tenth of what int() takes, and it would take signs and spaces
        if not _ZERO <= digit <= _NINE:
            raise _no_length()
        length = 10 * length + digit - _ZERO
    return length


def _checked(head: bytes, ends: int) -> bytes:
    """*head*, which is to have so many line ends: looked at as a whole, for that costs a tenth of looking at each line.

    Raises:
        RuntimeError: a name or a value has one as well, or a NUL, and would be taken for more than one header.
    """
    if head.count(b"\n") != ends or head.count(b"\r") != ends or _NUL in head:
        raise RuntimeError("a header has a line end or a NUL in it")
    return head


def _no_length() -> RuntimeError:
    return RuntimeError("content-length has to be one number")


def _status_line(status: int) -> bytes:
    """For a status without a phrase of its own."""
    if not 200 <= status <= 999:
        raise RuntimeError(f"{status} is not the status of a response")
    return b"HTTP/1.1 %d \r\n" % status
