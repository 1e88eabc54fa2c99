"""An application under uvicorn.

What uvicorn does not limit by itself is limited here, on its connections: how many there are, and how large and how
slow a request's head may be.
"""

import asyncio
import contextlib
import errno
import os
import socket
import sys
from collections.abc import Callable, Iterator
from http import HTTPStatus

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.errors import GatewayError, HeadTooLarge, MalformedBody, TooManyConnections
from gateway.server.asgi import App
from gateway.server.batched_transport import BatchedTransport
from gateway.server.listener import BACKLOG, ServerError
from gateway.server.stop_signals import handled_by
from gateway.settings import ServerSettings, Settings

LINGER_S = 1.0  # how long a client may take to read why it was refused


class _Config(uvicorn.Config):
    """uvicorn's configuration, and the limits that our connections read from it."""

    def __init__(self, app: App, *, server: ServerSettings, log_level: str) -> None:
        super().__init__(
            app,
            interface="asgi3",
            loop="uvloop",
            http=_Connection,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level=log_level,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=server.keep_alive_s,
            timeout_graceful_shutdown=server.shutdown_grace_s,
            h11_max_incomplete_event_size=server.max_header_bytes,
        )
        self.max_connections = server.max_connections
        self.max_header_bytes = server.max_header_bytes


def _level_for_uvicorn(level: str) -> str:
    """Uvicorn's INFO tells of its own steps, which `ready:` says better."""
    return "warning" if level == "info" else level


class _Connection(HttpToolsProtocol):
    """A client connection with bounds: how many there are, how large a request's head is and how long it takes."""

    config: _Config

    _in_head = False
    _piece = b""  # that is being parsed
    _head_bytes = 0  # of the head, in earlier pieces
    _piece_bytes = 0  # of the piece that is being parsed
    _head_timer: asyncio.TimerHandle | None = None
    _fault: GatewayError | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(BatchedTransport(transport, self.loop))
        if len(self.connections) > self.config.max_connections:
            self._refuse(TooManyConnections("The gateway has too many open connections.", retry_after_s=1))
            return
        self._head_timer = self.loop.call_later(self.timeout_keep_alive, self._close_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._piece = data
        self._piece_bytes = len(data)
        super().data_received(data)
        self._piece = b""
        if self._in_head and not self._refused:
            self._head_bytes += len(data)
            if self._head_bytes > self.config.max_header_bytes:
                self._refuse(self._head_too_large())
            elif self._head_timer is None:
                self._head_timer = self.loop.call_later(self.timeout_keep_alive, self._close_idle)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_head_timer()
        # The sum is only made where the bytes that came could be too many: nearly never.
        limit = self.config.max_header_bytes
        if self._head_bytes + self._piece_bytes > limit and self._size_of_head() > limit:
            self._fault = self._head_too_large()
            raise self._fault  # ends the parsing; uvicorn then calls send_400_response
        super().on_headers_complete()

    def _should_upgrade(self) -> bool:
        # True makes uvicorn call handle_websocket_upgrade, without having begun the request.
        return bool(self.scope["method"] != "CONNECT")

    def handle_websocket_upgrade(self) -> None:
        """Serve the request as if no upgrade had been offered (RFC 9110, 7.8 allows it).

        Java's own HTTP client offers h2c with every first POST. The parser takes what follows the head of such a
        request for another protocol, so the head is parsed once more without the offer, and the body after it.
        """
        upgrade = sys.exception()
        assert isinstance(upgrade, httptools.HttpParserUpgrade), "uvicorn calls this while it handles one"
        (end_of_head,) = upgrade.args
        fields = b"".join([name + b": " + value + b"\r\n" for name, value in self.headers if name != b"upgrade"])
        head = self.scope["method"].encode() + b" " + self.url + b" HTTP/1.1\r\n" + fields + b"\r\n"
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(head + self._piece[end_of_head:])

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._fault or MalformedBody(msg))

    def _refuse(self, fault: GatewayError) -> None:
        if self._refused:
            return
        self._refused = True
        body = fault.to_body()
        retry = f"retry-after: {fault.retry_after_s:g}\r\n" if fault.retry_after_s is not None else ""
        head = (
            f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}\r\ncontent-type: application/json\r\n{retry}"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        # Closed at once, what the client still sends would be answered by a reset, and the reset discards our answer.
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)

    def _head_too_large(self) -> HeadTooLarge:
        return HeadTooLarge(f"The request line and headers are larger than {self.config.max_header_bytes} bytes.")

    def _size_of_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)  # ": " and a line end

    def _close_idle(self) -> None:
        self._head_timer = None
        self.transport.close()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, *, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if any(bound.fileno() == -1 for bound in sockets or ()):
            # uvloop raises nothing when listening fails, it closes the socket; a taken port is the one cause.
            await self.shutdown(sockets)
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        if self.started:
            self._on_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but the signal is not raised again at the end: a stop that was asked for is a success."""
        with handled_by(self.handle_exit):
            yield


def run_on_uvicorn(app: App, settings: Settings, listener: socket.socket, on_started: Callable[[], None]) -> None:
    """Serve *app* on *listener* until a stop signal.

    Raises:
        ServerError: it cannot start.
    """
    server = settings.server
    config = _Config(app, server=server, log_level=_level_for_uvicorn(settings.logging.level))
    try:
        _Uvicorn(config, on_started=on_started).run(sockets=[listener])
    except OSError as fault:  # another process began to listen on the port after it was bound here
        raise ServerError(f"Cannot listen on {server.host} port {server.port}: {fault.strerror or fault}.") from fault
    except SystemExit as fault:
        raise ServerError("The application did not start; its error is above.") from fault
