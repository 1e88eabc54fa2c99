"""A second application on a port of its own, in the loop of the first and for as long as that one lives.

It is open from before the first one's start is complete until its requests are done, whichever server runs that: the
two meet in the messages of the lifespan only.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any

from gateway.server.addresses import Addresses
from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.connection import Connection, Limits, Open
from gateway.server.listener import BACKLOG, ServerError, bind


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens on *host* and *port* (0: a free one), closed at the end.

    Raises:
        ServerError: it cannot.
    """
    with contextlib.closing(bind(host, port)) as listener:
        try:
            listener.listen(BACKLOG)  # now: two programs may bind a port, and only one of them may listen on it
        except OSError as fault:
            reason = os.strerror(fault.errno or 0)
            raise ServerError(f"Cannot listen on {host} port {port}: {reason}.") from fault
        yield listener


def with_admin_port(
    app: App,
    admin: App,
    listener: socket.socket,
    limits: Limits,
    *,
    grace_s: float,
    state: Mapping[str, Any] | None = None,
) -> App:
    """*app*, with *admin* on *listener* while its lifespan is on; its requests may take *grace_s* to end at the stop.

    *admin* is not told of a lifespan: what it needs lives in that of *app*, or is in the *state* of its requests.
    """

    def either(scope: Message, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        # No coroutine of its own: all requests of the first application come this way.
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
    def __init__(self, app: App, listener: socket.socket, limits: Limits, state: dict[str, Any]) -> None:
        self._app = app
        self._listener = listener
        self._limits = limits
        self._state = state
        self._opened = Open(addresses=Addresses(limits.max_per_address, limits.unlimited))
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._app, limits=self._limits, opened=self._opened, state=self._state, loop=loop),
            sock=self._listener,
            backlog=BACKLOG,
        )

    async def close(self, grace_s: float) -> None:
        """Take no more requests, and cut those that run after *grace_s*."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for connection in list(self._opened.connections):
            connection.shutdown()
        if self._opened.tasks:
            await asyncio.wait(self._opened.tasks, timeout=grace_s)
        for connection in list(self._opened.connections):
            connection.cut()
