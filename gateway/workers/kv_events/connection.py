"""ZeroMQ connection with an engine, which either side can set up. The connection is read only as fast as its messages
are processed. Unread data stays with the engine.
"""

import asyncio
import socket
from collections.abc import Sequence
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Protocol, cast

from gateway.workers.kv_events.zmtp import ProtocolError, ReadProgress, ZmtpSession

Network = IPv4Network | IPv6Network

MAX_MESSAGE_BYTES = 8 * 2**20
"""Maximum size of a message in bytes. A step that reports a million tokens takes 5 MB. A larger message ends the
connection.
"""
HANDSHAKE_S = 10.0
READ_AHEAD_BYTES = 256 * 2**10
"""Number of bytes that one connection can buffer beyond the frame that is being received."""
UNSENT_BYTES = 64 * 2**10
"""Maximum number of unsent reply bytes. A peer that sends commands but does not read the replies is disconnected."""
KEEPALIVE_IDLE_S = 5
KEEPALIVE_S = 5
KEEPALIVE_PROBES = 2
"""Number of TCP keepalive probes before a host counts as gone. Otherwise, a vanished host looks like an idle engine."""


class Link(Enum):
    """State of a connection to an engine."""

    UP = "up"
    DOWN = "down"


class ConnectionOwner(Protocol):
    """Object that accepts connections and is notified by them."""

    def opened(self, connection: "ZmtpConnection") -> bool:
        """Return whether a new connection is allowed to stay open. A rejected connection is already closed."""
        ...

    def has_news(self, connection: "ZmtpConnection") -> None:
        """Notify the owner that *connection* might have data to read."""
        ...

    def closed(self, connection: "ZmtpConnection") -> None:
        """Notify the owner that *connection* has closed. Bytes that were already received can still be read."""
        ...

    def hold(self, more_bytes: int) -> bool:
        """Add *more_bytes*, which is negative for released bytes, to the number of buffered bytes. Return whether it is
        within the limit.
        """
        ...

    def refuse(self, connection: "ZmtpConnection", reason: str) -> None:
        """Close *connection*, because the peer violated the protocol or a limit."""
        ...


class ZmtpConnection(asyncio.Protocol):
    """Connection with an engine over ZeroMQ, on the gateway's side."""

    def __init__(
        self, owner: ConnectionOwner, conversation: ZmtpSession, *, read_ahead_bytes: int = READ_AHEAD_BYTES
    ) -> None:
        """Create the connection. *read_ahead_bytes* limits the bytes that are buffered beyond the current frame."""
        self._owner = owner
        self._conversation = conversation
        self._read_ahead_bytes = read_ahead_bytes
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_paused = False
        self._is_refused = False
        self.has_ended = False
        self._is_linked = False
        self._counted_bytes = 0
        self.is_waiting = False
        """Whether the owner has been notified of data that it has not read yet."""
        self.peer = "a local socket"

    def is_allowed(self, networks: Sequence[Network]) -> bool:
        """Return whether the peer's address is in *networks*. Unix sockets are always allowed, because file permissions
        protect them.
        """
        address = self._address()
        return address is None or any(address in network for network in networks)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def read(self) -> list[bytes] | Link | ReadProgress:
        """Return the next message or state change. `ReadProgress.IDLE` means that the owner will be notified of further
        data.
        """
        found = ReadProgress.IDLE if self._is_refused else self._step()
        if found is ReadProgress.READY:
            self._set_linked()
            return Link.UP
        if found is not ReadProgress.IDLE:
            return found
        if self.has_ended:
            was_linked, self._is_linked = self._is_linked, False
            return Link.DOWN if was_linked else ReadProgress.IDLE
        self._resume()
        return ReadProgress.IDLE

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        address = self._address()
        self.peer = self.peer if address is None else str(address)
        if not self._owner.opened(self):
            return
        if address is not None:
            _keep_alive(transport.get_extra_info("socket"))
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HANDSHAKE_S, self._refuse, "the peer did not complete the handshake")
        self._send()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._conversation.feed(data)
        if not self._count():
            self._refuse("the buffer for unread messages is full")
            return
        if self._conversation.held_bytes >= self._read_ahead_bytes and not self._conversation.is_short:
            self._pause()
        self._owner.has_news(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's
        self.has_ended = True
        self._cancel_deadline()
        self._owner.closed(self)

    # ---- inside

    def _address(self) -> IPv4Address | IPv6Address | None:
        assert self._transport is not None
        name = self._transport.get_extra_info("peername")
        if not isinstance(name, tuple):
            return None
        address = ip_address(str(name[0]).partition("%")[0])
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return address if mapped is None else mapped

    def _step(self) -> list[bytes] | ReadProgress:
        try:
            found = self._conversation.step()
        except ProtocolError as fault:
            self._refuse(str(fault))
            return ReadProgress.IDLE
        self._count()
        self._send()
        return found

    def _count(self) -> bool:
        held_bytes = self._conversation.held_bytes
        more_bytes, self._counted_bytes = held_bytes - self._counted_bytes, held_bytes
        return self._owner.hold(more_bytes)

    def _refuse(self, reason: str) -> None:
        # What it sent is dropped with it: a peer that broke a limit is not believed.
        self._is_refused = True
        self._conversation.clear()
        self._count()
        self._owner.refuse(self, reason)

    def _set_linked(self) -> None:
        self._is_linked = True
        self._cancel_deadline()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _send(self) -> None:
        outgoing = self._conversation.outgoing
        if self._transport is None or self.has_ended or self._is_refused or not outgoing:
            return
        self._transport.write(bytes(outgoing))
        outgoing.clear()
        if self._transport.get_write_buffer_size() > UNSENT_BYTES:
            self._refuse("the peer does not read the answers to its commands")

    def _pause(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()


def _keep_alive(connected: socket.socket) -> None:
    """Enable TCP keepalive probes for connections that were idle for `KEEPALIVE_IDLE_S` seconds."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
