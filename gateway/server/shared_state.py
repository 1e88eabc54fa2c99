"""Limits and state that all client connections of one server share."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Final

from gateway.protocol.errors import TooManyConnections
from gateway.server.addresses import Addresses
from gateway.server.stop import Stop

MAX_NAMES: Final = 512
"""Header names that are kept. When a new one comes, all are forgotten, among them those that no client sends again."""
_MAX_NAME_BYTES: Final = 64
"""A longer header name is not kept; common clients send none."""
_BEFORE_ANY_TIME: Final = -1.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of the connections of one server."""

    max_connections: int = 10_000
    max_header_bytes: int = 65_536
    keep_alive_s: float = 75.0
    """Time for the next request to begin, and again for its head to arrive."""
    write_timeout_s: float = 300.0
    """Time for the client to read some of an answer while all buffers in between are full."""
    body_idle_s: float = 60.0
    """Time between two pieces of a body."""
    min_body_bytes_per_s: float = 0.0
    """Average rate of a body after its first 20 s; 0 disables this limit."""
    max_per_address: int | None = None
    """Connections of one address; None: unlimited."""
    unlimited: tuple[str, ...] = ()
    """Networks without a limit per address: trusted proxies."""


class HeaderNames:
    """Header names in lower case, cached: the same object for equal names, so its hash is computed once."""

    __slots__ = ("_lower",)

    def __init__(self) -> None:
        self._lower: dict[bytes, bytes] = {}

    def lower(self, name: bytes) -> bytes:
        known = self._lower.get(name)
        return self._add(name) if known is None else known

    def _add(self, name: bytes) -> bytes:
        lower = name.lower()
        if len(name) <= _MAX_NAME_BYTES:
            if len(self._lower) == MAX_NAMES:
                self._lower.clear()
            self._lower[name] = lower
        return lower


class DateLine:
    """The header line ``date``, formatted once a second. *wall_clock* returns seconds since 1970."""

    __slots__ = ("_line", "_until", "_wall_clock")

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:  # noqa: TID251  # the composition root's own
        self._wall_clock = wall_clock
        self._line = b""
        self._until = _BEFORE_ANY_TIME

    def line(self, now: float) -> bytes:
        """Return the line at *now*, in monotonic seconds."""
        if now >= self._until:
            wall = self._wall_clock()
            self._until = now + 1.0 - wall % 1.0
            self._line = b"date: " + formatdate(wall, usegmt=True).encode("ascii") + b"\r\n"
        return self._line


@dataclass(slots=True)
class SharedState:
    """State of all connections of one server."""

    connections: set[Any] = field(default_factory=set)
    """Open connections; a stop waits until they are closed."""
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    """Tasks that serve a request; a stop waits until they end."""
    stop: Stop = field(default_factory=lambda: Stop(delay_s=0.0, clock=time.monotonic))
    """The stop of the server; once it is requested, every answer is the last one of its connection."""
    names: HeaderNames = field(default_factory=HeaderNames)
    addresses: Addresses = field(default_factory=Addresses)
    """Connections counted by address."""
    dates: DateLine = field(default_factory=DateLine)

    def admit(
        self, connection: object, client: tuple[str, int] | None, max_connections: int
    ) -> TooManyConnections | None:
        """Count *connection* of *client*, or return why it is refused. A refused connection is not counted."""
        if len(self.connections) >= max_connections:
            text = "The gateway has too many open connections (server.max_connections). Retry in 1 s."
            return TooManyConnections(text, retry_after_s=1)
        if not self.addresses.enter(client):
            text = (
                "Your address has too many open connections (server.max_connections_per_address). Close some of them."
            )
            return TooManyConnections(text, retry_after_s=1)
        self.connections.add(connection)
        return None

    def release(self, connection: object, host: str | None) -> None:
        """Forget *connection* of *host*; None: it was not counted by address."""
        self.connections.discard(connection)
        self.addresses.leave(host)
