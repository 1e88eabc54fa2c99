"""An application under uvicorn: its life cycle and its loop, on connections of our own."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from gateway.server.addresses import Addresses
from gateway.server.asgi import App
from gateway.server.connection import Connection, Limits, Open
from gateway.server.date_line import DateLine
from gateway.server.header_names import HeaderNames
from gateway.server.listener import BACKLOG, ServerError
from gateway.server.stop import CUT_S, Stop
from gateway.server.stop_signals import handled_by
from gateway.settings import ServerSettings, Settings

_log = logging.getLogger(__name__)

_LOOK_S = 0.05  # between two looks at whether all have ended


def limits_of(server: ServerSettings) -> Limits:
    return Limits(
        max_connections=server.max_connections,
        max_header_bytes=server.max_header_bytes,
        keep_alive_s=server.keep_alive_s,
        body_idle_s=server.body_idle_s,
        unread_s=server.unread_s,
        min_body_bytes_per_s=server.min_body_bytes_per_s,
        max_per_address=server.max_connections_per_address or -(-9 * server.max_connections // 10),
        unlimited=tuple(str(network) for network in server.trusted_proxies),
    )


def uvicorn_config(
    app: App, server: ServerSettings, *, stop: Stop | None = None, log_level: str = "warning"
) -> uvicorn.Config:
    """What uvicorn has to know to serve *app* on our connections; *stop* None: nobody asks for one by a signal."""
    limits = limits_of(server)
    asked = stop or Stop(delay_s=0.0, clock=time.monotonic)
    names, addresses, dates = HeaderNames(), Addresses(limits.max_per_address, limits.unlimited), DateLine()

    def connection(
        *, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any], **_: object
    ) -> Connection:
        return Connection(
            config.loaded_app,
            limits=limits,
            opened=Open(server_state.connections, server_state.tasks, asked, names, addresses, dates),
            state=app_state,
            loop=asyncio.get_running_loop(),
        )

    return uvicorn.Config(
        app,
        interface="asgi3",
        loop="uvloop",
        http=connection,  # type: ignore[arg-type]  # whatever makes a protocol will do
        ws="none",
        lifespan="on",
        log_config=None,
        log_level=log_level,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=server.shutdown_grace_s,
    )


def _level_for_uvicorn(level: str) -> str:
    """Uvicorn's INFO tells of its own steps, which `ready:` says better."""
    return "warning" if level == "info" else level


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, *, stop: Stop, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop
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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  # uvicorn's
        self._stop.signalled(sig)
        self.should_exit = self._stop.is_due  # else the next tick after the delay will see it

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._stop.is_due

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let what runs end within the grace, and what is cut then say so and settle, before the lifespan ends.

        uvicorn's own goes on to the lifespan at once, and without it where the end is forced.
        """
        late = [client for bound in sockets or () for client in _accepted(bound)]
        for server in self.servers:
            server.close()
        for bound in sockets or ():
            bound.close()
        for client in late:
            await self._take(client)
        state = Open(self.server_state.connections, self.server_state.tasks)
        for connection in list(state.connections):
            connection.shutdown()
        grace_s = self.config.timeout_graceful_shutdown or 0
        await self._all_end(lambda: self._stop.is_forced, within_s=grace_s)
        if state.tasks:
            if not self._stop.is_forced:
                _log.warning("Requests that still ran %d s after the stop were cut: %d.", grace_s, len(state.tasks))
            for task in list(state.tasks):
                task.cancel()
            await self._all_end(lambda: False, within_s=CUT_S)
        for connection in list(state.connections):
            connection.abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CUT_S if self._stop.is_forced else None):
                await self.lifespan.shutdown()

    async def _take(self, client: socket.socket) -> None:
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state), client
        )

    async def _all_end(self, enough: Callable[[], bool], *, within_s: float) -> None:
        """Wait for requests and connections to end, until it is *enough* or took too long."""
        state = self.server_state
        deadline = time.monotonic() + within_s
        while (state.tasks or state.connections) and not enough() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)  # a signal can set no event, and uvicorn's sets are plain


def _accepted(bound: socket.socket) -> Iterator[socket.socket]:
    """Connections that the kernel has accepted, and the loop has not: they would be reset with the listener."""
    if bound.fileno() == -1:
        return
    bound.setblocking(False)
    with contextlib.suppress(OSError):  # nobody waits
        while True:
            yield bound.accept()[0]


def run_on_uvicorn(
    app: App, settings: Settings, listener: socket.socket, on_started: Callable[[], None], stop: Stop
) -> None:
    """Serve *app* on *listener* until *stop* is due.

    Raises:
        ServerError: it cannot start.
    """
    server = settings.server
    config = uvicorn_config(app, server, stop=stop, log_level=_level_for_uvicorn(settings.logging.level))
    try:
        _Uvicorn(config, stop=stop, on_started=on_started).run(sockets=[listener])
    except OSError as fault:  # another process began to listen on the port after it was bound here
        raise ServerError(f"Cannot listen on {server.host} port {server.port}: {fault.strerror or fault}.") from fault
    except SystemExit as fault:
        raise ServerError("The application did not start; its error is above.") from fault
