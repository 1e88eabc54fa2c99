"""An application under uvicorn: its life cycle and its loop, on connections of our own."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from gateway.server.asgi import App
from gateway.server.connection import Connection, Limits, Open
from gateway.server.listener import BACKLOG, ServerError
from gateway.server.stop_signals import handled_by
from gateway.settings import ServerSettings, Settings


def limits_of(server: ServerSettings) -> Limits:
    return Limits(
        max_connections=server.max_connections,
        max_header_bytes=server.max_header_bytes,
        keep_alive_s=server.keep_alive_s,
        body_idle_s=server.body_idle_s,
        unread_s=server.unread_s,
    )


def uvicorn_config(app: App, server: ServerSettings, *, log_level: str = "warning") -> uvicorn.Config:
    """What uvicorn has to know to serve *app* on our connections."""
    limits = limits_of(server)

    def connection(
        *, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any], **_: object
    ) -> Connection:
        return Connection(
            config.loaded_app,
            limits=limits,
            opened=Open(server_state.connections, server_state.tasks),
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
    config = uvicorn_config(app, server, log_level=_level_for_uvicorn(settings.logging.level))
    try:
        _Uvicorn(config, on_started=on_started).run(sockets=[listener])
    except OSError as fault:  # another process began to listen on the port after it was bound here
        raise ServerError(f"Cannot listen on {server.host} port {server.port}: {fault.strerror or fault}.") from fault
    except SystemExit as fault:
        raise ServerError("The application did not start; its error is above.") from fault
