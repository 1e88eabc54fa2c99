"""Port at which clients connect with or without TLS.

Gateways call pickers over TLS or without it, and the probes of Kubernetes cannot use TLS. The first byte of a client
shows which of them it uses.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final

from gateway.server.listener import BACKLOG

_log = logging.getLogger(__name__)

_TLS_HANDSHAKE: Final = b"\x16"
"""First byte of a client that uses TLS (RFC 8446, 5.1)."""
FIRST_BYTE_S: Final = 10.0
"""Seconds within which a client must send its first byte."""
MAX_SILENT: Final = 1024
"""Maximum number of clients that have sent nothing."""
_RETRY_S: Final = 0.1


class Listener:
    """Listening socket of a server, with a protocol object for each client."""

    def __init__(
        self, bound: socket.socket, connected: Callable[[], asyncio.Protocol], context: Callable[[], ssl.SSLContext]
    ) -> None:
        """Create the listener for the socket *bound*. *connected* returns the protocol object of a client, and
        *context* the TLS settings for a new connection.
        """
        self._socket = bound
        self._connected = connected
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent = 0

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to accept clients, in *tasks*."""
        self._socket.setblocking(False)
        self._socket.listen(BACKLOG)
        self._run(tasks, self._accept(tasks))

    def close(self) -> None:
        """Accept no more clients, and close the connections of clients that have sent nothing."""
        for task in list(self._tasks):
            task.cancel()
        self._socket.close()

    def _run(self, tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
        task = tasks.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._socket)
            except OSError as fault:
                _log.warning("A connection to the picker was not accepted: %s", fault.strerror)
                await asyncio.sleep(_RETRY_S)
                continue
            if self._silent >= MAX_SILENT:
                client.close()
            else:
                self._silent += 1
                self._run(tasks, self._welcome(client))

    async def _welcome(self, client: socket.socket) -> None:
        """Connect *client* as soon as its first byte has arrived."""
        loop = asyncio.get_running_loop()
        is_connected = False
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(FIRST_BYTE_S):
                first = await _first_byte(client)
            if first:
                context = self._context() if first == _TLS_HANDSHAKE else None
                await loop.connect_accepted_socket(self._connected, client, ssl=context)
                is_connected = True
        except (OSError, TimeoutError) as fault:  # also errors of TLS
            _log.debug("a client of the picker was not connected: %s", type(fault).__name__)
        finally:
            self._silent -= 1
            if not is_connected:
                client.close()


async def _first_byte(client: socket.socket) -> bytes:
    """Return the first byte of *client* without taking it, or ``b""`` if the client has closed the connection."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(client, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(client)
    return client.recv(1, socket.MSG_PEEK)
