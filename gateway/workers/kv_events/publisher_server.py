"""Accepts the connections of engines that dial the gateway, and reads what they publish, within limits.

1. A peer whose address is not allowed is disconnected before a byte of it is read.
2. A connection is read no faster than its messages are taken: what is not taken stays with the engine.
3. Connections take turns, one frame each. Who breaks the protocol or a limit is disconnected, and the log says so.
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
"""Pairs of an address and a reason; each is logged once."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of one bound address."""

    max_connections: int = 1024
    """Maximum number of connections; an engine has one for each of its data-parallel ranks."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_held_bytes: int = 128 * 2**20
    """Maximum of bytes that were received and not taken yet, of all connections; the one that exceeds it is
    disconnected."""


class PublisherServer:
    """One bound address; made by `publisher_server`."""

    def __init__(self, allowed: Sequence[Network], limits: ServerLimits) -> None:
        self._allowed = allowed
        self.limits = limits
        self.bound = ""
        """Endpoint with its port, also where the system chose it."""
        self.refused = 0
        """Connections that were refused, or ended because they broke a limit."""
        self.held_bytes = 0
        """Bytes that were received and not taken yet, of all connections."""
        self._connections: set[ZmtpConnection] = set()
        self._waiting: deque[ZmtpConnection] = deque()
        self._news = asyncio.Event()
        self._logged: set[tuple[str, str]] = set()

    async def ready(self) -> None:
        """Wait until there may be something to read."""
        await self._news.wait()

    def read(self) -> list[bytes] | Link | ReadProgress:
        """Take one step: a message, news of a connection after all its messages, or `ReadProgress.IDLE` at the end."""
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
        """Accept connections until canceled; then end all of them."""
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
        """Whether it may stay."""
        if not connection.is_allowed(self._allowed):
            self.refuse(connection, "its address is not in kv_events.allowed_cidrs")
        elif len(self._connections) >= self.limits.max_connections:
            self.refuse(connection, f"there are {self.limits.max_connections} connections already")
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
        """Count held bytes, or fewer; return False if that is more than all connections together may hold."""
        self.held_bytes += more_bytes
        return self.held_bytes <= self.limits.max_held_bytes

    def refuse(self, connection: ZmtpConnection, reason: str) -> None:
        """End *connection*; the log says why, once for each address and reason."""
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
    """Return a server at *endpoint*, ``tcp://host:port`` or ``ipc://path``, for peers whose address is in *allowed*.

    Raises:
        OSError: the address cannot be bound.
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
    """Return the listening socket, and its endpoint with the port, also where the system chose it."""
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
    """Bind *host*; ``*`` is every address, of both families where the machine has both."""
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    if host == "*":
        if socket.has_dualstack_ipv6():
            return socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
        host = "0.0.0.0"  # noqa: S104  # what the setting says; peers are checked against a list
    family, _, _, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family)
