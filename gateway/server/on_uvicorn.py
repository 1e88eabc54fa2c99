"""Run an ASGI application with uvicorn's event loop and life cycle, but with the gateway's own connection class."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from gateway.server.addresses import Addresses
from gateway.server.asgi import App
from gateway.server.connection import ClientConnection
from gateway.server.listener import BACKLOG, ServerError
from gateway.server.shared_state import ConnectionLimits, DateLine, HeaderNames, SharedState
from gateway.server.stop import CUT_S, Stop, handled_by

_log = logging.getLogger(__name__)

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """Options for one HTTP server."""

    limits: ConnectionLimits
    address: str = ""
    """Host and port of the server, used in error messages."""
    shutdown_grace_s: int = 0
    log_level: str = "warning"


def uvicorn_config(app: App, options: ServingOptions, *, stop: Stop | None = None) -> uvicorn.Config:
    """Return the uvicorn configuration that runs *app* with the gateway's connection class. If *stop* is None, signals
    do not request a stop.
    """
    limits = options.limits
    shared_stop = stop or Stop(delay_s=0.0, clock=time.monotonic)
    names, addresses, dates = HeaderNames(), Addresses(limits.max_per_address, limits.unlimited), DateLine()

    def connection(
        *, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any], **_: object
    ) -> ClientConnection:
        return ClientConnection(
            config.loaded_app,
            limits=limits,
            shared=SharedState(server_state.connections, server_state.tasks, shared_stop, names, addresses, dates),
            state=app_state,
            loop=asyncio.get_running_loop(),
        )

    return uvicorn.Config(
        app,
        interface="asgi3",
        loop="uvloop",
        http=connection,  # type: ignore[arg-type]  # any function that returns a protocol works
        ws="none",
        lifespan="on",
        log_config=None,
        log_level=_level_for_uvicorn(options.log_level),
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=options.shutdown_grace_s,
    )


def _level_for_uvicorn(level: str) -> str:
    """Return uvicorn's log level for the program's log level. The INFO lines of uvicorn would only repeat the gateway's
    own startup message.
    """
    return "warning" if level == "info" else level


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, *, stop: Stop, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if any(bound.fileno() == -1 for bound in sockets or ()):
            # uvloop raises nothing if listening fails, it closes the socket; the only cause is a port in use.
            await self.shutdown(sockets)
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        if self.started:
            self._on_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle stop signals. Unlike uvicorn, do not raise the signals again afterwards, so that a requested stop
        exits with status 0.
        """
        with handled_by(self.handle_exit):
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  # uvicorn's
        self._stop.signalled(sig)
        self.should_exit = self._stop.is_due  # otherwise the first tick after the delay sees it

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._stop.is_due

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for running requests until the grace period ends, cancel the remaining requests, and shut down the
        application.

        uvicorn's own method shuts the application down without waiting for cancelled requests to clean up. After a
        forced stop, uvicorn's own method does not shut the application down.
        """
        unaccepted = [client for bound in sockets or () for client in _accepted(bound)]
        for server in self.servers:
            server.close()
        for bound in sockets or ():
            bound.close()
        for client in unaccepted:
            await self._connect(client)
        state = SharedState(self.server_state.connections, self.server_state.tasks)
        for connection in list(state.connections):
            connection.shutdown()
        grace_s = self.config.timeout_graceful_shutdown or 0
        await self._wait_until_idle(lambda: self._stop.is_forced, within_s=grace_s)
        if state.tasks:
            if not self._stop.is_forced:
                text = "Aborted %d requests that were still running %d s after the server began to stop."
                _log.warning(text, len(state.tasks), grace_s)
            for task in list(state.tasks):
                task.cancel()
            await self._wait_until_idle(lambda: False, within_s=CUT_S)
        for connection in list(state.connections):
            connection.abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CUT_S if self._stop.is_forced else None):
                await self.lifespan.shutdown()

    async def _connect(self, client: socket.socket) -> None:
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state), client
        )

    async def _wait_until_idle(self, give_up: Callable[[], bool], *, within_s: float) -> None:
        """Wait until all requests and connections have ended, *within_s* seconds have passed, or *give_up* returns
        true.
        """
        state = self.server_state
        deadline = time.monotonic() + within_s
        while (state.tasks or state.connections) and not give_up() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)  # a signal cannot set an event, and uvicorn's sets are plain


def _accepted(bound: socket.socket) -> Iterator[socket.socket]:
    """Yield the connections that the kernel has accepted but the program has not. If the listening socket were closed,
    they would be reset.
    """
    if bound.fileno() == -1:
        return
    bound.setblocking(False)
    with contextlib.suppress(OSError):  # no more connections wait
        while True:
            yield bound.accept()[0]


def run_on_uvicorn(
    app: App, options: ServingOptions, listener: socket.socket, on_started: Callable[[], None], stop: Stop
) -> None:
    """Serve *app* on *listener* until *stop* is due.

    Raises:
        ServerError: if the server cannot start.
    """
    config = uvicorn_config(app, options, stop=stop)
    try:
        _Uvicorn(config, stop=stop, on_started=on_started).run(sockets=[listener])
    except OSError as fault:  # another process listened on the port after it was bound here
        raise ServerError(f"Cannot listen on {options.address}: {fault.strerror or fault}.") from fault
    except SystemExit as fault:
        raise ServerError("The application did not start. Its error is logged above.") from fault
