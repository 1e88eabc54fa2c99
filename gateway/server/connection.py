"""One client's connection: HTTP/1.1 in, and the application called for each request, one after the other.

uvicorn's own protocol class does the same in three times the time, and without bounds: on how many connections there
are, how large a head is, and how long a client may take to send what it has begun.

1. Requests that come ahead of their turn (pipelining) wait, and while one waits nothing more is read. What is wrong
   with one of them is said when its turn comes, never amid the response to another.
2. `_due` says until when the client must have sent, or read, what is its turn; None while it is ours. One timer per
   connection looks at it, so that no request starts or stops one.
3. An offer of another protocol is passed over: the request is served as if none had been made.
4. A task that has served a request waits for the next one on its connection: to make one costs more than all else that
   is done here for a request. It ends instead where its request left something behind that the next would see: a
   cancellation that nobody took back, a context variable.
5. What the parser lets pass and RFC 9112 does not is refused here, by `request_rules`. It is given heads and bodies one
   by one, as `message_ends` cuts them: of each request it is known with which byte it begins.
6. After 64 KiB of a body that nobody wants the connection ends. What comes within the second in which the client may
   read that, 16 MiB at most, is thrown away unparsed: a reset would take the answer away from it.
7. At a stop no connection is closed under a request: whatever has come is answered, and the answer says that it was the
   last. One that has been idle for a moment is closed.
"""

import asyncio
import logging
import time
from collections import deque
from contextvars import copy_context
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import httptools

from gateway.errors import GatewayError, HeadTooLarge, MalformedBody, RequestTooSlow, TooManyConnections
from gateway.server.addresses import Addresses
from gateway.server.asgi import App
from gateway.server.cycle import Cycle, serve
from gateway.server.date_line import DateLine
from gateway.server.header_names import HeaderNames
from gateway.server.message_ends import MessageEnds, past_empty_lines
from gateway.server.request_rules import (
    announced_bytes,
    authority_of,
    check_head,
    check_host,
    check_line,
)
from gateway.server.stop import Stop

_log = logging.getLogger(__name__)

_MAX_UNREAD_BYTES: Final = 65_536  # of a body that the application has not asked for; asyncio's own default for writing
_MAX_UNWANTED_BYTES: Final = 65_536  # of a body that is read although its request has been answered
_MAX_LINGER_BYTES: Final = 2**24  # thrown away after the end, so that a client that only sends can read its answer then
_MAX_FIELDS: Final = 100  # headers of one request; Apache's LimitRequestFields and nginx's practice are the same
_BODY_GRACE_S: Final = 20.0  # before its rate counts; as Apache's mod_reqtimeout has it: body=20,MinRate=500
_FRAMING_PER_BYTE: Final = 16  # bytes of chunk framing for each of a body; a chunk of one byte needs five
_MAX_WAITING = 100  # requests of a few bytes each; one piece of 256 KiB would else become thousands of cycles
_MAX_HELD: Final = 16  # pieces of a response: an application that never suspends would else never meet back-pressure
_MAX_HELD_BYTES: Final = 4096  # of one of them
_LINGER_S = 1.0  # how long a client may take to read an answer that it does not expect
_LAST_S = 0.5  # how long an idle connection stays open at a stop: a busy client asks once more, and is told
_LAST_LOOK_S = 0.01  # between two looks at it: what was there at the first has been read at the second
_LONGEST_KEPT: Final = 256  # bytes of a target that is kept with its connection; those of APIs have less
_MAX_COPIED_BYTES: Final = 8192  # a view is dearer than a copy of this many
_LAST_LINE_END: Final = ord(b"\r")  # no method begins with a byte so small
_FRAGMENT: Final = ord(b"#")  # looked for as a number: for `bytes in bytes` CPython raises an error, and drops it
_NOTED: Final = frozenset({b"content-length", b"expect", b"host", b"transfer-encoding"})
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class _Unreadable(Exception):
    """Ends the parsing. The fault is kept beside it: with a traceback it would hold the connection that holds it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take."""

    max_connections: int = 10_000
    max_header_bytes: int = 65_536
    keep_alive_s: float = 75.0
    """For the next request to begin, and for its head to come, each."""
    unread_s: float = 300.0
    """To read some of an answer of which all buffers on the way are full."""
    body_idle_s: float = 60.0
    """Between two pieces of a body."""
    min_body_bytes_per_s: float = 0.0
    """Of a body as a whole, once it has taken 20 s; 0: it may come as slowly as it likes."""
    max_per_address: int | None = None
    """Connections of one address; None: no limit of its own."""
    unlimited: tuple[str, ...] = ()
    """Networks that have no such limit: proxies before this server."""


@dataclass(slots=True)
class Open:
    """The connections there are and the tasks that serve requests; uvicorn waits for both when it stops."""

    connections: set[Any] = field(default_factory=set)
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    stop: Stop = field(default_factory=lambda: Stop(delay_s=0.0, clock=time.monotonic))
    """While it is asked for, every answer is the last on its connection."""
    names: HeaderNames = field(default_factory=HeaderNames)
    addresses: Addresses = field(default_factory=Addresses)
    """The connections by their addresses."""
    dates: DateLine = field(default_factory=DateLine)


class Connection(asyncio.Protocol):
    """A protocol for ``loop.create_server``; *state* goes into the scope of every request."""

    __slots__ = (
        "_address",
        "_app",
        "_begun",
        "_body_bytes",
        "_body_from",
        "_client",
        "_context",
        "_dates",
        "_due",
        "_ends",
        "_expects_continue",
        "_fault",
        "_following",
        "_former",
        "_head_bytes",
        "_headers",
        "_held",
        "_hosts",
        "_in_head",
        "_is_coded",
        "_is_over",
        "_is_paused",
        "_is_unwanted",
        "_known_host",
        "_length",
        "_limits",
        "_line",
        "_loop",
        "_message_ends",
        "_names",
        "_open",
        "_parser",
        "_parsing",
        "_paused_at",
        "_piece",
        "_piece_body",
        "_resting",
        "_scheme",
        "_server",
        "_serving",
        "_state",
        "_timer",
        "_transport",
        "_unwanted_bytes",
        "_url",
        "_waiting",
        "_writable",
        "is_writable",
    )

    def __init__(
        self,
        app: App,
        *,
        limits: Limits,
        opened: Open,
        state: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._app = app
        self._limits = limits
        self._open = opened
        self._names = opened.names
        self._dates = opened.dates
        self._state = state
        self._loop = loop
        self._transport: asyncio.Transport
        self._parser = self._new_parser()
        self._timer: asyncio.TimerHandle | None = None
        self._due: float | None = None
        self._is_paused = False
        self._paused_at = 0.0
        self._is_over = False  # nothing more is taken from the client
        self._address: str | None = None  # under which it is counted
        self._ends = False  # the server takes no connections more
        self._fault: GatewayError | None = None
        self.is_writable = True
        self._writable: asyncio.Future[None] | None = None
        self._held: list[bytes] = []  # to be written at the end of this turn of the loop
        # The request being parsed
        self._in_head = False
        self._message_ends = MessageEnds()
        self._head_bytes = 0  # in earlier pieces: of the head, then of what is no body (chunk extensions, trailers)
        self._piece = b""  # of a head, that is being parsed
        self._piece_body = 0  # bytes of a body in the piece that is being parsed
        self._begun = b""  # pieces before, from the begin of this request to the end of its line
        self._length = 0  # of its body, as its head says
        self._hosts = 0  # headers of that name
        self._known_host: bytes | None = None  # the last that was in order
        self._is_coded = False  # there is a transfer-encoding
        self._body_bytes = 0  # that came of it
        self._body_from = -1.0  # when it was first waited for, and later by as long as we paused it
        self._unwanted_bytes = 0  # that came of a body after its answer, or of anything after the end
        self._is_unwanted = False  # more than may
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects_continue = False
        self._parsing: Cycle | None = None  # whose body is coming
        self._line = b""  # of a request before
        self._former: dict[str, Any] | None = None  # what that line says, and the connection: of a scope
        # The requests being served
        self._serving: Cycle | None = None
        self._waiting: deque[Cycle] = deque()
        self._context = copy_context()  # that each of them begins in
        self._resting: asyncio.Task[None] | None = None  # until there is another to serve
        self._following: asyncio.Future[Cycle] | None = None  # what it waits for

    def _new_parser(self) -> Any:
        parser = httptools.HttpRequestParser(self)
        # A pipelined request may follow one that said `connection: close`; the answer to that one must not be lost.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # create_server always makes a full one
        self._client = _address(transport.get_extra_info("peername"))
        self._server = _address(transport.get_extra_info("sockname"))
        self._scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        connections = self._open.connections
        if len(connections) >= self._limits.max_connections:
            # Not counted while it lingers: many refusals would else be the reason for more.
            self._refuse(TooManyConnections("The gateway has too many open connections.", retry_after_s=1))
            return
        if not self._open.addresses.enter(self._client):
            text = "Your address has too many open connections (server.max_connections_per_address)."
            self._refuse(TooManyConnections(text, retry_after_s=1))
            return
        self._address = None if self._client is None else self._client[0]
        connections.add(self)
        self._due = self._loop.time() + self._limits.keep_alive_s
        self._look()

    def data_received(self, data: bytes) -> None:
        at, size = 0, len(data)
        while at < size and not self._is_over:
            at = self._take_body(data, at) if self._parsing is not None else self._take_head(data, at)
        if at < size:
            self._drop(size - at)
        elif self._parsing is not None and not self._is_over:
            self._due = self._body_due(self._parsing)

    def eof_received(self) -> None:
        """The transport closes: a client that has said all it wanted and only listens is not known to HTTP."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._open.connections.discard(self)
        self._open.addresses.leave(self._address)
        self._address = None
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._parser = self._timer = None  # they hold the connection
        for cycle in (self._serving, *self._waiting):
            if cycle is not None:
                cycle.lost()
        self._waiting.clear()
        self._serving = self._parsing = None
        if self._following is not None:
            self._following.cancel()
        self._following = self._resting = None
        self.resume_writing()

    def pause_writing(self) -> None:
        self.is_writable = False
        self._due = self._loop.time() + self._limits.unread_s

    def resume_writing(self) -> None:
        self.is_writable = True
        if self._serving is not None:
            self._due = None
        waiter, self._writable = self._writable, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def shutdown(self) -> None:
        """The server stops: what has come is answered, and no more than that."""
        self._ends = True
        if self._is_idle:
            self._end_soon()

    def abort(self) -> None:
        """The server has stopped: what has not left yet will not."""
        self._transport.abort()

    # What came, to the parser

    def _take_head(self, data: bytes, at: int) -> int:
        """Parse what *data* has of a head, from *at* on; return where that ends."""
        if not self._in_head and data[at] <= _LAST_LINE_END:
            at = past_empty_lines(data, at)
            if at == len(data):
                return at
        end = self._message_ends.head_in(data, at)
        self._piece = piece = data[at:end]  # which is *data* itself where it is all of it
        self._parse(piece)
        self._piece = b""
        if self._in_head and not self._is_over:
            self._keep_line(piece)
            self._head_goes_on(len(piece))
        return end

    def _take_body(self, data: bytes, at: int) -> int:
        """The same for a body."""
        end = self._message_ends.body_in(data, at)
        self._piece_body = 0
        self._parse(memoryview(data)[at:end] if end - at > _MAX_COPIED_BYTES else data[at:end])
        if self._parsing is not None and not self._is_over:
            self._body_goes_on(end - at)
        return end

    def _parse(self, piece: bytes | memoryview) -> None:
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._pass_over()
        except httptools.HttpParserError as error:
            if self._is_unwanted:
                self._linger()
            else:
                self._refuse(self._fault or _fault_behind(error))

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._begun = b""
        self._length = 0
        self._url = b""
        self._headers = []
        self._expects_continue = False
        self._hosts = 0
        self._is_coded = False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = self._names.lower(name)
        if name in _NOTED:  # applications look names up as well: bytes keep their hash
            self._note(name, value)
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._due = None
        # The sum is only made where the bytes that came could be too many: nearly never.
        limit = self._limits.max_header_bytes
        if self._head_bytes + len(self._piece) > limit and self._size_of_head() > limit:
            self._stop_parsing(self._head_too_large())
        if len(self._headers) > _MAX_FIELDS:
            self._stop_parsing(HeadTooLarge(f"The request has more than {_MAX_FIELDS} header fields."))
        parser = self._parser
        if self._hosts != 1 or self._is_coded:
            self._check(check_head(parser.get_http_version(), hosts=self._hosts, is_coded=self._is_coded))
        if parser.should_upgrade():
            self._check_line(parser.get_method(), parser.get_http_version())
            return
        scope = self._scope()
        self._begun = b""
        self._head_bytes = 0
        self._body_bytes = 0
        self._body_from = -1.0
        self._message_ends.expect_body(self._length, is_chunked=self._is_coded)
        cycle = Cycle(
            scope,
            self,
            loop=self._loop,
            is_persistent=parser.should_keep_alive(),
            expects_continue=self._expects_continue and scope["http_version"] == "1.1",
        )
        self._headers = []  # for trailers, which nobody reads: the application has the other list
        if self._serving is None:
            self._serve(cycle)
        else:
            self._wait(cycle)
        self._parsing = cycle

    def on_body(self, body: bytes) -> None:
        size = len(body)
        self._piece_body += size
        self._body_bytes += size
        cycle = self._parsing
        if cycle is None:
            return
        if cycle.response_complete:
            self._unwanted_bytes += size
            if self._unwanted_bytes > _MAX_UNWANTED_BYTES:
                self._is_unwanted = True
                raise _Unreadable
            return
        cycle.body_came(body)
        if cycle.unread_bytes > _MAX_UNREAD_BYTES:
            self._pause()

    def on_message_complete(self) -> None:
        cycle = self._parsing
        if cycle is not None:
            self._parsing = None
            self._unwanted_bytes = 0
            self._due = None if self.is_writable else self._loop.time() + self._limits.unread_s
            cycle.body_ended()
            if cycle.response_complete:
                self._next()

    # What a cycle asks for

    @property
    def is_last(self) -> bool:
        return self._ends or self._open.stop.is_asked

    def date_line(self) -> bytes:
        return self._dates.line(self._loop.time())

    def wants_close(self, cycle: Cycle) -> bool:
        return announced_bytes(cycle.scope["headers"]) - self._body_bytes > _MAX_UNWANTED_BYTES

    async def drained(self) -> None:
        while not self.is_writable:
            if self._writable is None:
                self._writable = self._loop.create_future()
            await asyncio.shield(self._writable)

    def write(self, data: bytes) -> None:
        if self._held:
            self._held.append(data)
            self._flush()
        elif not self._transport.is_closing():  # else the peer has gone, and to uvloop a write would be an error
            self._transport.write(data)

    def write_soon(self, data: bytes) -> None:
        if len(data) > _MAX_HELD_BYTES or len(self._held) == _MAX_HELD:
            self.write(data)
            return
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)

    def _flush(self) -> None:
        held = self._held
        if held:
            self._held = []
            if not self._transport.is_closing():
                self._transport.write(held[0] if len(held) == 1 else b"".join(held))

    def wants_body(self) -> None:
        if not self._waiting:
            self._resume()
            if self._parsing is not None and self._due is None:  # it waited for the application to ask
                self._due = self._body_due(self._parsing)

    def completed(self, cycle: Cycle) -> None:
        if not cycle.is_persistent:
            if cycle.body_complete:
                self._close()
            else:
                self._linger()
        elif cycle.body_complete:
            self._next()
        else:
            self._resume()  # the rest of a body that nobody wants has to come before the next request can

    def cut(self) -> None:
        self._close()

    def following(self) -> "asyncio.Future[Cycle] | None":
        if self._is_over or self._ends or self._resting is not None:
            return None
        task = asyncio.current_task()
        if task is None or task.cancelling() or copy_context() != self._context:
            return None
        self._open.tasks.discard(task)  # a stop does not wait for it
        self._resting = task
        self._following = following = self._loop.create_future()
        return following

    # Requests, one after the other

    def _serve(self, cycle: Cycle) -> None:
        self._serving = cycle
        tasks = self._open.tasks
        task, following = self._resting, self._following
        self._resting = self._following = None
        if task is None or following is None or following.done():  # done: somebody has cancelled the task
            task = self._loop.create_task(serve(cycle, self._app), context=self._context.copy())
            task.add_done_callback(tasks.discard)
        else:
            following.set_result(cycle)
        tasks.add(task)

    def _wait(self, cycle: Cycle) -> None:
        if len(self._waiting) == _MAX_WAITING:
            self._stop_parsing(MalformedBody(f"More than {_MAX_WAITING} requests came ahead of their turn."))
        self._waiting.append(cycle)
        self._pause()

    def _next(self) -> None:
        """The exchange is over, both ways."""
        if self._waiting:
            self._serve(self._waiting.popleft())
        else:
            self._serving = None
            if self._fault is not None:
                self._answer(self._fault)
                return
            self._due = self._loop.time() + self._limits.keep_alive_s
            if self._ends:
                self._end_soon()
        if self._is_paused and not self._waiting:
            self._resume()

    def _note(self, name: bytes, value: bytes) -> None:
        # The parser leaves the space behind a value.
        if name == b"host":
            self._hosts += 1
            if value != self._known_host:
                self._check(check_host(value.strip().lower()))
                self._known_host = value
        elif name == b"content-length":
            self._length = int(value)  # which the parser has checked
        elif name == b"expect":
            self._expects_continue = value.strip().lower() == b"100-continue"
        else:
            self._is_coded = True
            if value.strip().lower() != b"chunked":  # the application would take the coded body for the body
                self._stop_parsing(MalformedBody("The one transfer-encoding that is read here is chunked."))

    def _check(self, fault: str | None) -> None:
        if fault is not None:
            self._stop_parsing(MalformedBody(fault))

    def _check_line(self, method: bytes, version: str) -> None:
        """Whether the line of the request came as the specification has it."""
        self._check(check_line(method, self._url, version, self._begun + self._piece))

    def _keep_line(self, piece: bytes) -> None:
        """Of a head that is not complete."""
        if b"\n" not in self._begun:
            self._begun += piece

    def _stop_parsing(self, fault: GatewayError) -> NoReturn:
        self._fault = fault
        raise _Unreadable

    def _scope(self) -> dict[str, Any]:
        """Most clients ask one thing again and again: where the line is one that came before, so is what it says."""
        former = self._former
        if former is not None and not self._begun and self._piece.startswith(self._line):
            scope = former.copy()
        else:
            scope = self._said_by_line()
        scope["headers"] = self._headers
        scope["state"] = self._state.copy()
        return scope

    def _said_by_line(self) -> dict[str, Any]:
        method: bytes = self._parser.get_method()
        version: str = self._parser.get_http_version()
        self._check_line(method, version)
        raw_path, query = self._url, b""
        is_absolute = raw_path[:1] != b"/"
        if is_absolute or _FRAGMENT in raw_path:  # an absolute URL, as to a proxy; or what no client sends
            parts: Any = httptools.parse_url(raw_path)  # what its stubs call bytes may be None
            if is_absolute and raw_path != b"*":
                self._host_is(parts)
            raw_path, query = parts.path or b"/", parts.query or b""
        else:
            raw_path, _, query = raw_path.partition(b"?")
        path = raw_path.decode("ascii")
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": method.decode("ascii"),
            "scheme": self._scheme,
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "client": self._client,
            "server": self._server,
        }
        if len(self._url) <= _LONGEST_KEPT and not is_absolute:
            self._line = method + b" " + self._url + b" HTTP/" + version.encode("ascii") + b"\r\n"
            self._former = scope.copy()
        return scope

    def _host_is(self, parts: Any) -> None:
        """Let the application see the host of an absolute target, which counts instead of the header's."""
        authority = authority_of(parts)
        if authority is None:
            self._stop_parsing(MalformedBody("The request target is not a path, nor an http:// or https:// URL."))
        self._headers = [(b"host", authority), *[each for each in self._headers if each[0] != b"host"]]

    def _pass_over(self) -> None:
        """Serve the request as if no upgrade had been offered (RFC 9110, 7.8 allows it).

        Java's own HTTP client offers h2c with every first POST. The parser takes what follows the head of such a
        request for another protocol, so the head is parsed once more without the offer.
        """
        parser = self._parser
        method = parser.get_method()
        if method == b"CONNECT":
            self._refuse(MalformedBody("CONNECT is not served here."))
            return
        fields = b"".join([name + b": " + value + b"\r\n" for name, value in self._headers if name != b"upgrade"])
        version = parser.get_http_version().encode("ascii")
        self._piece = head = method + b" " + self._url + b" HTTP/" + version + b"\r\n" + fields + b"\r\n"
        self._parser = self._new_parser()
        self._parse(head)

    # Bounds

    def _head_goes_on(self, came: int) -> None:
        """A head that is not complete: its bytes and its time count."""
        limit = self._limits.max_header_bytes
        if self._head_bytes == 0 and self._serving is None:
            self._due = self._loop.time() + self._limits.keep_alive_s
        self._head_bytes += came
        if self._head_bytes > limit:
            self._refuse(self._head_too_large())

    def _body_goes_on(self, came: int) -> None:
        """A body that is not complete: what came and is none of it counts."""
        self._head_bytes += came - self._piece_body
        if self._head_bytes > self._limits.max_header_bytes + _FRAMING_PER_BYTE * self._body_bytes:
            self._refuse(MalformedBody("The chunk extensions or trailers are too large."))

    def _body_due(self, cycle: Cycle) -> float | None:
        if self._is_paused or cycle.expects_continue:
            return None
        now = self._loop.time()
        due = now + self._limits.body_idle_s
        rate = self._limits.min_body_bytes_per_s
        if rate == 0.0:
            return due
        if self._body_from < 0.0:
            self._body_from = now
        return min(due, self._body_from + _BODY_GRACE_S + self._body_bytes / rate)

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._paused_at = self._loop.time()
            self._due = None
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self._body_from >= 0.0:
                self._body_from += self._loop.time() - self._paused_at
            if not self._transport.is_closing():
                self._transport.resume_reading()
                if self._parsing is not None:
                    self._due = self._body_due(self._parsing)

    def _look(self) -> None:
        """Whether the client is late. The next look is within the shortest time that a client has: none is missed."""
        now = self._loop.time()
        due = self._due
        if due is not None and now >= due:
            if self._is_over:
                self._transport.abort()
                return
            self._is_late()
            due = self._due
        limits = self._limits
        next_look = now + min(limits.keep_alive_s, limits.body_idle_s, limits.unread_s, _BODY_GRACE_S)
        self._timer = self._loop.call_at(next_look if due is None else min(due, next_look), self._look)

    def _is_late(self) -> None:
        """Say so where a request has begun, and close."""
        cycle = self._parsing
        if cycle is not None and self.is_writable and not cycle.response_complete:
            self._refuse(RequestTooSlow("The body came too slowly: send it faster, or in a request of its own."))
        elif self._in_head and self._serving is None:
            self._refuse(RequestTooSlow("The request line and headers came too slowly."))
        else:
            self._close()

    def _drop(self, came: int) -> None:
        """After the end: a client that does not stop sending is not read any more."""
        self._unwanted_bytes += came
        if self._unwanted_bytes > _MAX_LINGER_BYTES and not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    # The end

    @property
    def _is_idle(self) -> bool:
        return self._serving is None or self._serving.response_complete

    def _end_soon(self) -> None:
        """Close what is idle, unless a request comes within a moment."""
        self._loop.call_later(_LAST_S, self._look_twice)

    def _look_twice(self) -> None:
        self._loop.call_later(_LAST_LOOK_S, self._end_if_idle)

    def _end_if_idle(self) -> None:
        """With an end that the client can read: a reset would tell proxies that this server failed (HAProxy's
        ``empty-response`` is retried elsewhere, an error while it reads is not).
        """
        if self._is_idle and not self._is_over:
            self._linger()

    def _refuse(self, fault: GatewayError) -> None:
        """What comes from the client cannot be read on: say so when it is its turn, and close."""
        self._is_over = True
        self._due = None
        self._piece = b""
        broken, self._parsing = self._parsing, None
        if self._serving is None:
            self._answer(fault)
        elif broken is not self._serving:
            if self._waiting and self._waiting[-1] is broken:
                self._waiting.pop()
            self._fault = fault  # for its turn
        elif broken.has_left:
            self._close()
        else:
            broken.lost()
            self._answer(fault)

    def _answer(self, fault: GatewayError) -> None:
        body = fault.to_body()
        retry = f"retry-after: {fault.retry_after_s:g}\r\n" if fault.retry_after_s is not None else ""
        head = (
            f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}\r\ncontent-type: application/json\r\n{retry}"
            f"content-length: {len(body)}\r\nconnection: close\r\n"
        )
        self.write(head.encode("ascii") + self.date_line() + b"\r\n" + body)
        self._linger()

    def _linger(self) -> None:
        """Close, but not at once: a reset, the answer to what the client still sends, would discard our own."""
        self._is_over = True
        self._resume()
        self._due = None
        if not self._transport.is_closing():
            self._transport.write_eof()
            self._loop.call_later(_LINGER_S, self._close)

    def _close(self) -> None:
        """Close when all that was written has left; a client that does not take it is cut off."""
        self._flush()
        self._is_over = True
        self._due = self._loop.time() + self._limits.keep_alive_s
        self._transport.close()

    def _head_too_large(self) -> HeadTooLarge:
        return HeadTooLarge(f"The request line and headers are larger than {self._limits.max_header_bytes} bytes.")

    def _size_of_head(self) -> int:
        return len(self._url) + sum(len(name) + len(value) + 4 for name, value in self._headers)  # ": " and a line end


def _fault_behind(error: Exception) -> GatewayError:
    """What a failure to parse is to the client; one of ours, in a callback, is logged."""
    ours = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
    if ours is None or isinstance(ours, httptools.HttpParserInvalidURLError):
        return MalformedBody("This is not an HTTP/1.1 request.")
    _log.error("a request could not be taken in", exc_info=ours)
    return GatewayError("The gateway failed to take this request in.")


def _address(name: Any) -> tuple[str, int] | None:
    """Host and port of a socket's *name*; None for what has none, such as a Unix socket."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple | list) and len(name) >= 2 else None
