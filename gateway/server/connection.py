"""Client connection that reads HTTP/1.1 requests and calls the application for each request in turn.

uvicorn's own protocol class takes three times as long per request, and does not limit connections, sizes and times.

1. Pipelined requests are served in order. While one waits, nothing more is read from the client. An invalid request is
   answered after the requests before it, never in the middle of another response.
2. A request to upgrade to another protocol is served as a plain HTTP/1.1 request.
3. Requests that RFC 9112 forbids but the parser accepts are rejected by `request_rules`. The module `message_ends`
   splits the received bytes, so that the parser receives each head and each body separately.
"""

import asyncio
import logging
from typing import Any

import httptools

from gateway.protocol.errors import GatewayError, MalformedBody, RequestTooSlow
from gateway.server.asgi import App
from gateway.server.body_reader import MAX_UNWANTED_BYTES, BodyReader
from gateway.server.closing import Closing
from gateway.server.cycle import Cycle
from gateway.server.deadline import ClientDeadline
from gateway.server.head_reader import HeadReader
from gateway.server.message_ends import MessageEnds, past_empty_lines
from gateway.server.request_queue import MAX_WAITING, RequestQueue
from gateway.server.request_rules import announced_bytes
from gateway.server.response_writer import ResponseWriter
from gateway.server.scope import ScopeBuilder
from gateway.server.shared_state import ConnectionLimits, SharedState

_log = logging.getLogger(__name__)

_MAX_COPIED_BYTES = 8192  # up to this size a copy costs less than a view
_LAST_LINE_END = ord(b"\r")  # no method begins with a byte as small as a line end


class ParserCallbacks:
    """Callbacks of one HTTP parser. The parser looks up its callbacks only once, when it is created."""

    __slots__ = (
        "on_body",
        "on_header",
        "on_headers_complete",
        "on_message_begin",
        "on_message_complete",
        "on_url",
    )

    def __init__(self, connection: "ClientConnection", head: HeadReader, body: BodyReader) -> None:
        self.on_message_begin = head.on_message_begin
        self.on_url = head.on_url
        self.on_header = head.on_header
        self.on_headers_complete = connection.on_headers_complete
        self.on_body = body.on_body
        self.on_message_complete = connection.on_message_complete


class ClientConnection(asyncio.Protocol):
    """Protocol class (asyncio) for one client connection. *state* is copied into the ASGI scope of every request."""

    __slots__ = (
        "_body",
        "_closing",
        "_deadline",
        "_delayed_fault",
        "_head",
        "_host",
        "_limits",
        "_loop",
        "_message_ends",
        "_parser",
        "_queue",
        "_shared",
        "_state",
        "_timer",
        "_transport",
        "_writer",
    )

    def __init__(
        self,
        app: App,
        *,
        limits: ConnectionLimits,
        shared: SharedState,
        state: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._limits = limits
        self._shared = shared
        self._state = state
        self._loop = loop
        self._deadline = ClientDeadline(limits, loop)
        self._message_ends = MessageEnds()
        self._queue = RequestQueue(app, shared.tasks, loop)
        self._transport: asyncio.Transport
        self._writer: ResponseWriter
        self._head: HeadReader
        self._body: BodyReader
        self._closing: Closing
        self._parser: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._host: str | None = None  # under which this connection is counted
        self._delayed_fault: GatewayError | None = None  # to be answered after the requests before it

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connect(transport)  # type: ignore[arg-type]  # create_server always makes a full one
        client = _address(transport.get_extra_info("peername"))
        fault = self._shared.admit(self, client, self._limits.max_connections)
        if fault is not None:
            self._refuse(fault)
            return
        self._host = None if client is None else client[0]
        self._deadline.expect_request()
        self._check_deadline()

    def _connect(self, transport: asyncio.Transport) -> None:
        limits, loop = self._limits, self._loop
        scopes = ScopeBuilder(
            _address(transport.get_extra_info("peername")),
            _address(transport.get_extra_info("sockname")),
            "https" if transport.get_extra_info("sslcontext") else "http",
            self._state,
        )
        self._transport = transport
        self._writer = ResponseWriter(transport, self._shared.dates, loop)
        self._head = HeadReader(scopes, self._shared.names, limits.max_header_bytes)
        self._body = BodyReader(transport, self._deadline, limits.max_header_bytes)
        self._closing = Closing(
            transport, reader=self._body, queue=self._queue, writer=self._writer, deadline=self._deadline, loop=loop
        )
        self._parser = _new_parser(ParserCallbacks(self, self._head, self._body))

    def data_received(self, data: bytes) -> None:
        at, size = 0, len(data)
        while at < size and not self._closing.is_over:
            at = self._read_body(data, at) if self._body.cycle is not None else self._read_head(data, at)
        if at < size:
            self._closing.discard(size - at)
        elif not self._closing.is_over:
            self._body.expect()

    def eof_received(self) -> None:
        """Let the transport close the connection, because HTTP clients do not half-close connections."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._shared.release(self, self._host)
        self._host = None
        self._closing.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._parser = self._timer = None  # they refer to this connection
        self._queue.lose()
        self._body.cycle = None
        self._writer.resume()

    def pause_writing(self) -> None:
        self._writer.pause()
        self._deadline.expect_read()

    def resume_writing(self) -> None:
        if self._queue.serving is not None:
            self._deadline.due = None
        self._writer.resume()

    # The server

    def shutdown(self) -> None:
        """Answer the requests that have already arrived, and then close the connection."""
        self._closing.stop()

    def abort(self) -> None:
        """Close the connection at once and discard all data that has not been sent."""
        self._transport.abort()

    # Reading

    def _read_head(self, data: bytes, at: int) -> int:
        """Parse the part of a request head that begins at index *at* of *data*. Return the index where it ends."""
        head = self._head
        if not head.is_open and data[at] <= _LAST_LINE_END:
            at = past_empty_lines(data, at)
            if at == len(data):
                return at
        end = self._message_ends.head_in(data, at)
        head.piece = piece = data[at:end]  # *data* itself if the head is all of it
        self._parse(piece)
        head.piece = b""
        if head.is_open and not self._closing.is_over:
            if head.read_bytes == 0 and self._queue.serving is None:
                self._deadline.expect_request()
            if not head.keep(piece):
                self._refuse(head.too_large())
        return end

    def _read_body(self, data: bytes, at: int) -> int:
        """Parse the part of a request body that begins at index *at* of *data*. Return the index where it ends."""
        end = self._message_ends.body_in(data, at)
        self._body.start_piece()
        self._parse(memoryview(data)[at:end] if end - at > _MAX_COPIED_BYTES else data[at:end])
        if self._body.cycle is not None and not self._closing.is_over and not self._body.end_piece(end - at):
            self._refuse(
                MalformedBody("The chunk extensions or trailers of the body are too large. Send smaller ones.")
            )
        return end

    def _parse(self, piece: bytes | memoryview) -> None:
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._ignore_upgrade()
        except httptools.HttpParserError as error:
            if self._body.is_unwanted:
                self._closing.linger()
            else:
                self._refuse(self._head.fault or _fault_behind(error))

    def _ignore_upgrade(self) -> None:
        """Serve the request as if it had no `upgrade` header, which RFC 9110 allows in section 7.8.

        Java's HTTP client offers h2c with every first POST request. The parser would take the body of that request for
        data of the new protocol, so the head is parsed again without the header.
        """
        head = self._head.without_upgrade(self._parser)
        if head is None:
            self._refuse(MalformedBody("The HTTP method CONNECT is not supported."))
            return
        self._parser = _new_parser(ParserCallbacks(self, self._head, self._body))
        self._parse(head)

    def on_headers_complete(self) -> None:
        self._deadline.due = None
        head = self._head
        scope = head.complete(self._parser)
        if scope is None:
            return
        self._body.start()
        self._message_ends.expect_body(head.content_length, is_chunked=head.is_chunked)
        cycle = Cycle(
            scope,
            self,
            self._writer,
            loop=self._loop,
            is_persistent=self._parser.should_keep_alive(),
            expects_continue=head.expects_continue and scope["http_version"] == "1.1",
        )
        queue = self._queue
        if queue.serving is None:
            queue.serve(cycle)
        elif queue.is_full:
            text = f"More than {MAX_WAITING} pipelined requests wait for their answers. Send fewer at once."
            head.stop(MalformedBody(text))
        else:
            queue.add(cycle)
            self._body.pause()
        self._body.cycle = cycle

    def on_message_complete(self) -> None:
        cycle = self._body.cycle
        if cycle is not None:
            self._body.complete()
            if self._writer.is_writable:
                self._deadline.due = None
            else:
                self._deadline.expect_read()
            cycle.body_ended()
            if cycle.response_complete:
                self._start_next()

    # What a cycle asks for, see `CycleConnection`

    @property
    def is_last(self) -> bool:
        return self._closing.is_stopping or self._shared.stop.is_requested

    def wants_close(self, cycle: Cycle) -> bool:
        return announced_bytes(cycle.scope["headers"]) - self._body.received_bytes > MAX_UNWANTED_BYTES

    def wants_body(self) -> None:
        if not self._queue.has_waiting:
            self._body.resume()
            if self._deadline.due is None:  # the body waited for the application
                self._body.expect()

    def completed(self, cycle: Cycle) -> None:
        if not cycle.is_persistent:
            if cycle.body_complete:
                self._closing.close()
            else:
                self._closing.linger()
        elif cycle.body_complete:
            self._start_next()
        else:
            self._body.resume()  # the rest of the unwanted body comes before the next request

    def cut(self) -> None:
        self._closing.close()

    def reuse_task(self, task: "asyncio.Task[None]") -> "asyncio.Future[Cycle] | None":
        return None if self._closing.is_over or self._closing.is_stopping else self._queue.reuse_task(task)

    def _start_next(self) -> None:
        """Serve the next request that waits on the connection. If none waits, prepare to receive one."""
        if not self._queue.serve_next():
            if self._delayed_fault is not None:
                self._closing.answer(self._delayed_fault)
                return
            self._deadline.expect_request()
            if self._closing.is_stopping:
                self._closing.close_if_idle_soon()
        if not self._queue.has_waiting:
            self._body.resume()

    # Refusing

    def _refuse(self, fault: GatewayError) -> None:
        """Stop reading, send the error *fault* after the answers to earlier requests, and close the connection."""
        self._closing.is_over = True
        self._deadline.due = None
        broken, self._body.cycle = self._body.cycle, None
        serving = self._queue.serving
        if serving is None:
            self._closing.answer(fault)
        elif broken is not serving:
            self._queue.remove_last(broken)
            self._delayed_fault = fault
        elif serving.has_left:
            self._closing.close()
        else:
            serving.lost()
            self._closing.answer(fault)

    def _check_deadline(self) -> None:
        now = self._loop.time()
        due = self._deadline.due
        if due is not None and now >= due:
            if self._closing.is_over:
                self._transport.abort()
                return
            self._expire()
        self._timer = self._loop.call_at(self._deadline.next_check(now), self._check_deadline)

    def _expire(self) -> None:
        cycle = self._body.cycle
        if cycle is not None and self._writer.is_writable and not cycle.response_complete:
            self._refuse(RequestTooSlow("The request body arrived too slowly. Send it faster, or in several requests."))
        elif self._head.is_open and self._queue.serving is None:
            text = (
                f"The request line and headers took longer than {self._limits.keep_alive_s:g} s (server.keep_alive_s)."
            )
            self._refuse(RequestTooSlow(f"{text} Send them at once."))
        else:
            self._closing.close()


def _new_parser(callbacks: ParserCallbacks) -> Any:
    parser = httptools.HttpRequestParser(callbacks)
    # A pipelined request may follow one with `connection: close`; the answer to the first must not be lost.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _fault_behind(error: Exception) -> GatewayError:
    """Return the error to send after a parser failure *error*. Log *error* if it comes from the gateway's own
    callbacks.
    """
    ours = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
    if ours is None or isinstance(ours, httptools.HttpParserInvalidURLError):
        return MalformedBody("The request is not valid HTTP/1.1.")
    _log.error("the gateway failed to parse a request", exc_info=ours)
    return GatewayError("The gateway failed to read this request because of an internal error.")


def _address(name: Any) -> tuple[str, int] | None:
    """Return the host and port in the socket name *name*, or None if it has neither, as for a Unix socket."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple | list) and len(name) >= 2 else None
