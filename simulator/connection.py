"""TCP connection of a client. A request handler can close the connection, and is notified at once if it is lost.

ASGI offers neither to a handler, but uvicorn's protocol class does. This module extends that class and puts the
connection into the ``state`` of every request scope.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

_LINGER_ZERO = struct.pack("ii", 1, 0)  # struct linger {on, seconds}: closing sends RST instead of FIN


class Connection:
    """TCP connection that serves one request at a time. *when_lost* is called once when the connection ends."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._lost = asyncio.get_running_loop().create_future()
        self.when_lost: Callable[[], None] | None = None

    @property
    def is_lost(self) -> bool:
        return self._lost.done()

    async def wait_lost(self) -> None:
        await asyncio.shield(self._lost)

    async def is_lost_within(self, seconds: float) -> bool:
        """Wait for *seconds* or until the connection ends. Return whether the connection has ended."""
        try:
            await asyncio.wait_for(self.wait_lost(), seconds)
        except TimeoutError:
            return False
        return True

    async def abort(self) -> None:
        """Flush the written data and close the connection, so that the client sees a truncated response body."""
        for _ in range(100):
            if self.is_lost or not self._transport.get_write_buffer_size():
                break
            await asyncio.sleep(0)
        self._transport.abort()

    def reset(self) -> None:
        """Close the connection with a TCP reset."""
        sock: socket.socket | None = self._transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        self._transport.abort()

    def mark_lost(self) -> None:
        if self.is_lost:
            return
        self._lost.set_result(None)
        if self.when_lost is not None:
            self.when_lost()


class ConnectionProtocol(HttpToolsProtocol):
    """HTTP/1.1 protocol of uvicorn that gives each request its `Connection` and keeps track of open connections."""

    def __init__(self, config: Config, server_state: ServerState, open_connections: set[Connection]) -> None:
        super().__init__(config=config, server_state=server_state, app_state={})
        self._open_connections = open_connections
        self._connection: Connection | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._connection = Connection(transport)
        self._open_connections.add(self._connection)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._connection is not None:
            self._open_connections.discard(self._connection)
            self._connection.mark_lost()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        state: dict[str, Any] = self.scope["state"]
        state["connection"] = self._connection
