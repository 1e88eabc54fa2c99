"""Server that accepts connections from engines and reads their events within limits.

1. A peer whose address is not allowed is disconnected before any of its data is read.
2. A connection is read only as fast as its messages are processed. Unread data stays with the engine.
3. Connections take turns, one frame each. A peer that violates the protocol or a limit is disconnected, and the
   violation is logged.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from gateway.workers.kv_events.connection import MAX_MESSAGE_BYTES, Link, Network, ZmtpConnection
from gateway.workers.kv_events.zmtp import ReadProgress, ZmtpSession

_log = logging.getLogger(__name__)

LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
AFTER_FAULT_S = 0.1
REFUSALS_LOGGED = 256
"""Maximum number of pairs of peer address and reason to log. Each pair is logged once."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits for one listening address."""

    max_connections: int = 1024
    """Maximum number of connections. An engine opens one connection per data-parallel rank."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_held_bytes: int = 128 * 2**20
    """Maximum number of received but unprocessed bytes on all connections. A connection that exceeds this limit is
    closed.
    """


class PublisherServer:
    """Server at one listening address. The function `publisher_server` creates it."""

    def __init__(self, allowed: Sequence[Network], limits: ServerLimits) -> None:
        self._allowed = allowed
        self.limits = limits
        self.bound = ""
        """Listening endpoint, with the actual port if the system chose the port."""
        self.refused = 0
        """Number of connections that were refused, or that were closed because they exceeded a limit."""
        self.held_bytes = 0
        """Number of received but unprocessed bytes on all connections."""
        self._connections: set[ZmtpConnection] = set()
        self._waiting: deque[ZmtpConnection] = deque()
        self._news = asyncio.Event()
        self._logged: set[tuple[str, str]] = set()

    async def ready(self) -> None:
        """Wait until there might be data to read."""
        await self._news.wait()

    def read(self) -> list[bytes] | Link | ReadProgress:
        """Return the next message or connection state change, or `ReadProgress.IDLE` if no data is pending.

        Messages of a connection come before its closing.
        """
        while self._waiting:
            connection = self._waiting.popleft()
            connection.is_waiting = False
            found = connection.read()
            if found is ReadProgress.IDLE:
                continue
            if found is not Link.DOWN:
                self.has_news(connection)
            return found
        self._news.clear()
        return ReadProgress.IDLE

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections until canceled, and then close all of them."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listening)
                    await loop.connect_accepted_socket(self._connection, accepted)
                except OSError:
                    # The peer has gone again, or no file descriptor is free.
                    await asyncio.sleep(AFTER_FAULT_S)
        finally:
            for connection in [*self._connections]:
                connection.abort()

    def _connection(self) -> ZmtpConnection:
        return ZmtpConnection(self, ZmtpSession(max_message_bytes=self.limits.max_message_bytes))

    # ---- called by connections

    def opened(self, connection: ZmtpConnection) -> bool:
        """Return whether *connection* is allowed to stay open. If not, close it."""
        if not connection.is_allowed(self._allowed):
            self.refuse(connection, "its address is not in kv_events.allowed_cidrs")
        elif len(self._connections) >= self.limits.max_connections:
            self.refuse(connection, f"the limit of {self.limits.max_connections} connections is reached")
        else:
            self._connections.add(connection)
            return True
        return False

    def has_news(self, connection: ZmtpConnection) -> None:
        if not connection.is_waiting:
            connection.is_waiting = True
            self._waiting.append(connection)
        self._news.set()

    def closed(self, connection: ZmtpConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            self.has_news(connection)

    def hold(self, more_bytes: int) -> bool:
        """Add *more_bytes*, which is negative for released bytes, to the number of unprocessed bytes. Return whether it
        is within the limit.
        """
        self.held_bytes += more_bytes
        return self.held_bytes <= self.limits.max_held_bytes

    def refuse(self, connection: ZmtpConnection, reason: str) -> None:
        """Close *connection* and log the reason, once per address and reason."""
        self.refused += 1
        entry = (connection.peer, reason)
        if entry not in self._logged and len(self._logged) < REFUSALS_LOGGED:
            self._logged.add(entry)
            _log.warning("refused a connection from %s for KV events: %s", connection.peer, reason)
        connection.abort()


@asynccontextmanager
async def publisher_server(
    endpoint: str, *, allowed: Sequence[Network] = LOOPBACK, limits: ServerLimits | None = None
) -> AsyncIterator[PublisherServer]:
    """Open a server at *endpoint* for peers whose addresses are in *allowed*.

    *endpoint* has the form ``tcp://host:port`` or ``ipc://path``.

    Raises:
        OSError: if the address cannot be bound.
    """
    server = PublisherServer(allowed, ServerLimits() if limits is None else limits)
    listening, server.bound = _bind(endpoint)
    with listening:
        listening.setblocking(False)
        async with asyncio.TaskGroup() as tasks:
            accepting = tasks.create_task(server.accept(listening))
            try:
                yield server
            finally:
                accepting.cancel()


def _bind(endpoint: str) -> tuple[socket.socket, str]:
    """Return the listening socket and its endpoint, with the actual port if the system chose the port."""
    kind, _, place = endpoint.partition("://")
    if kind == "ipc":
        Path(place).unlink(missing_ok=True)  # of the process before, as libzmq does
        local = socket.socket(socket.AF_UNIX)
        local.bind(place)
        local.listen()
        return local, endpoint
    bound = _bind_tcp(place)
    return bound, f"tcp://{place.rpartition(':')[0]}:{bound.getsockname()[1]}"


def _bind_tcp(place: str) -> socket.socket:
    """Bind a TCP socket. The host ``*`` stands for all addresses, IPv4 and, if the machine supports it, IPv6."""
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    if host == "*":
        if socket.has_dualstack_ipv6():
            return socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
        host = "0.0.0.0"  # noqa: S104  # what the setting says; peers are checked against a list
    family, _, _, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family)
