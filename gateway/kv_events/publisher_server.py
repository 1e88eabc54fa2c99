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
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import cast

from gateway.kv_events.sockets import KEEPALIVE_IDLE_S, KEEPALIVE_PROBES, KEEPALIVE_S, MAX_MESSAGE_BYTES, Link
from gateway.kv_events.zmtp import Conversation, Progress, ProtocolError

_log = logging.getLogger(__name__)

Network = IPv4Network | IPv6Network

LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
HANDSHAKE_S = 10.0
AFTER_FAULT_S = 0.1
READ_AHEAD_BYTES = 256 * 2**10
"""Of one connection, beyond the frame that is being received."""
UNSENT_BYTES = 64 * 2**10
"""Answers to a peer that sends commands and reads nothing; then it is disconnected."""
REFUSALS_LOGGED = 256
"""Pairs of an address and a reason; each is logged once."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of one bound address."""

    max_connections: int = 1024
    """An engine has one for each of its data-parallel ranks."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_held_bytes: int = 128 * 2**20
    """Received and not taken yet, of all connections together; the one that exceeds it is disconnected."""


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
        """Received and not taken yet, of all connections."""
        self._connections: set[_Connection] = set()
        self._waiting: deque[_Connection] = deque()
        self._news = asyncio.Event()
        self._logged: set[tuple[str, str]] = set()

    async def ready(self) -> None:
        """Wait until there may be something to read."""
        await self._news.wait()

    def read(self) -> list[bytes] | Link | Progress:
        """Take one step: a message, news of a connection after all its messages, or `Progress.IDLE` at the end."""
        while self._waiting:
            connection = self._waiting.popleft()
            connection.is_waiting = False
            found = connection.read()
            if found is Progress.IDLE:
                continue
            if found is not Link.DOWN:
                self.has_news(connection)
            return found
        self._news.clear()
        return Progress.IDLE

    async def accept(self, listening: socket.socket) -> None:
        """Accept until cancelled; then end all connections."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listening)
                    await loop.connect_accepted_socket(lambda: _Connection(self), accepted)
                except OSError:
                    # The peer has gone again, or no file descriptor is free.
                    await asyncio.sleep(AFTER_FAULT_S)
        finally:
            for connection in [*self._connections]:
                connection.abort()

    # ---- called by connections

    def opened(self, connection: "_Connection") -> bool:
        """Whether it may stay."""
        if not connection.is_allowed(self._allowed):
            self.refuse(connection, "its address is not in kv_events.allowed_cidrs")
        elif len(self._connections) >= self.limits.max_connections:
            self.refuse(connection, f"there are {self.limits.max_connections} connections already")
        else:
            self._connections.add(connection)
            return True
        return False

    def has_news(self, connection: "_Connection") -> None:
        if not connection.is_waiting:
            connection.is_waiting = True
            self._waiting.append(connection)
        self._news.set()

    def closed(self, connection: "_Connection") -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            self.has_news(connection)

    def hold(self, more_bytes: int) -> bool:
        """Count them, or fewer; False if that is more than all connections together may hold."""
        self.held_bytes += more_bytes
        return self.held_bytes <= self.limits.max_held_bytes

    def refuse(self, connection: "_Connection", reason: str) -> None:
        """End *connection*; the log says why, once for each address and reason."""
        self.refused += 1
        entry = (connection.peer, reason)
        if entry not in self._logged and len(self._logged) < REFUSALS_LOGGED:
            self._logged.add(entry)
            _log.warning("refused a connection of %s for KV events: %s", connection.peer, reason)
        connection.abort()


class _Connection(asyncio.Protocol):
    """The gateway's end of one connection."""

    def __init__(self, server: PublisherServer) -> None:
        self._server = server
        self._conversation = Conversation(max_message_bytes=server.limits.max_message_bytes)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_paused = False
        self._is_refused = False
        self._has_ended = False
        self._is_linked = False
        self._counted_bytes = 0
        self.is_waiting = False
        self.peer = "a local socket"

    def is_allowed(self, networks: Sequence[Network]) -> bool:
        """Whether the peer's address is in *networks*. A Unix socket is guarded by its file's rights."""
        address = self._address()
        return address is None or any(address in network for network in networks)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def read(self) -> list[bytes] | Link | Progress:
        """One step. After `Progress.IDLE` the server has to be told of news before there is more."""
        found = Progress.IDLE if self._is_refused else self._step()
        if found is Progress.READY:
            self._set_linked()
            return Link.UP
        if found is not Progress.IDLE:
            return found
        if self._has_ended:
            was_linked, self._is_linked = self._is_linked, False
            return Link.DOWN if was_linked else Progress.IDLE
        self._resume()
        return Progress.IDLE

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        address = self._address()
        self.peer = self.peer if address is None else str(address)
        if not self._server.opened(self):
            return
        if address is not None:
            _keep_alive(transport.get_extra_info("socket"))
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HANDSHAKE_S, self._refuse, "it did not complete the handshake")
        self._send()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._conversation.feed(data)
        if not self._count():
            self._refuse("too much is waiting to be read")
            return
        if self._conversation.held_bytes >= READ_AHEAD_BYTES and not self._conversation.is_short:
            self._pause()
        self._server.has_news(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's
        self._has_ended = True
        self._cancel_deadline()
        self._server.closed(self)

    # ---- inside

    def _address(self) -> IPv4Address | IPv6Address | None:
        assert self._transport is not None
        name = self._transport.get_extra_info("peername")
        if not isinstance(name, tuple):
            return None
        address = ip_address(str(name[0]).partition("%")[0])
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return address if mapped is None else mapped

    def _step(self) -> list[bytes] | Progress:
        try:
            found = self._conversation.step()
        except ProtocolError as fault:
            self._refuse(f"it {fault}")
            return Progress.IDLE
        self._count()
        self._send()
        return found

    def _count(self) -> bool:
        held_bytes = self._conversation.held_bytes
        more_bytes, self._counted_bytes = held_bytes - self._counted_bytes, held_bytes
        return self._server.hold(more_bytes)

    def _refuse(self, reason: str) -> None:
        # What it sent is dropped with it: a peer that broke a limit is not believed.
        self._is_refused = True
        self._conversation.clear()
        self._count()
        self._server.refuse(self, reason)

    def _set_linked(self) -> None:
        self._is_linked = True
        self._cancel_deadline()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _send(self) -> None:
        outgoing = self._conversation.outgoing
        if self._transport is None or self._has_ended or self._is_refused or not outgoing:
            return
        self._transport.write(bytes(outgoing))
        outgoing.clear()
        if self._transport.get_write_buffer_size() > UNSENT_BYTES:
            self._refuse("it does not read the answers to its commands")

    def _pause(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()


def _keep_alive(connected: socket.socket) -> None:
    """As `KEEPALIVE_IDLE_S` says."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


@asynccontextmanager
async def publisher_server(
    endpoint: str, *, allowed: Sequence[Network] = LOOPBACK, limits: ServerLimits | None = None
) -> AsyncIterator[PublisherServer]:
    """A server at *endpoint*, ``tcp://host:port`` or ``ipc://path``, for peers whose address is in *allowed*.

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
    """The listening socket, and its endpoint with the port, also where the system chose it."""
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
    """``*`` is every address, of both families where the machine has both."""
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    if host == "*":
        if socket.has_dualstack_ipv6():
            return socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
        host = "0.0.0.0"  # noqa: S104  # what the setting says; peers are checked against a list
    family, _, _, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family)
