"""Serve a second ASGI application on a separate port, on the event loop of the main application.

The admin port opens just before the main application reports that it has started, and closes after its last request.
The two applications share nothing but the messages of the ASGI lifespan, so any server can run the main application.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any

from gateway.server.addresses import Addresses
from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.connection import ClientConnection
from gateway.server.listener import BACKLOG, ServerError, bind
from gateway.server.shared_state import ConnectionLimits, SharedState


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens on *host* and *port*, and close the socket afterwards. Port 0 selects any free port.

    Raises:
        ServerError: if the port cannot be used.
    """
    with contextlib.closing(bind(host, port)) as listener:
        try:
            listener.listen(BACKLOG)  # at once: two programs can bind a port, but only one of them can listen
        except OSError as fault:
            reason = os.strerror(fault.errno or 0)
            raise ServerError(f"Cannot listen on {host} port {port}: {reason}.") from fault
        yield listener


def with_admin_port(
    app: App,
    admin: App,
    listener: socket.socket,
    limits: ConnectionLimits,
    *,
    grace_s: float,
    state: Mapping[str, Any] | None = None,
) -> App:
    """Return the application *app*, changed so that it also serves the application *admin* on *listener* while it runs.

    On shutdown, admin requests have *grace_s* seconds to complete. The application *admin* receives no lifespan
    messages. The resources of *admin* belong to *app*, or are in the *state* that each request receives.
    """

    def either(scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        # No extra coroutine: all requests of the first application pass here.
        return lifespan(scope, receive, send) if scope["type"] == "lifespan" else app(scope, receive, send)

    async def lifespan(scope: Message, receive: Receive, send: Send) -> None:
        port = _Port(admin, listener, limits, dict(state or {}))

        async def receiving() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await port.close(grace_s)
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                await port.open()
            await send(message)

        try:
            await app(scope, receiving, sending)
        finally:
            await port.close(0)

    return either


class _Port:
    def __init__(self, app: App, listener: socket.socket, limits: ConnectionLimits, state: dict[str, Any]) -> None:
        self._app = app
        self._listener = listener
        self._limits = limits
        self._state = state
        self._shared = SharedState(addresses=Addresses(limits.max_per_address, limits.unlimited))
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ClientConnection(self._app, limits=self._limits, shared=self._shared, state=self._state, loop=loop),
            sock=self._listener,
            backlog=BACKLOG,
        )

    async def close(self, grace_s: float) -> None:
        """Stop accepting requests, and abort requests that are still running after *grace_s* seconds."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for connection in list(self._shared.connections):
            connection.shutdown()
        if self._shared.tasks:
            await asyncio.wait(self._shared.tasks, timeout=grace_s)
        for connection in list(self._shared.connections):
            connection.cut()
