"""Limits and state that all client connections of a server share."""

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
"""Maximum number of cached header names. A full cache is emptied, which drops names that clients no longer send."""
_MAX_NAME_BYTES: Final = 64
"""Maximum length in bytes of a header name in the cache. Names that common clients send are shorter."""
_BEFORE_ANY_TIME: Final = -1.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits for the client connections of a server."""

    max_connections: int = 10_000
    max_header_bytes: int = 65_536
    keep_alive_s: float = 75.0
    """Seconds within which a client must begin its next request, and within which it must complete the head."""
    write_timeout_s: float = 300.0
    """Seconds within which a client must read a part of an answer while all buffers between the gateway and the client
    are full.
    """
    body_idle_s: float = 60.0
    """Maximum seconds between two parts of a request body."""
    min_body_bytes_per_s: float = 0.0
    """Minimum average rate of a request body in bytes per second after its first 20 s, or 0 for no minimum."""
    max_per_address: int | None = None
    """Maximum number of connections from one client address, or None for no limit."""
    unlimited: tuple[str, ...] = ()
    """Networks whose addresses are allowed to open any number of connections, such as those of trusted proxies."""


class HeaderNames:
    """Cache of header names in lower case. Equal names share one object, so that Python computes each hash only
    once.
    """

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
    """Formatted `date` header line, updated once a second. The function *wall_clock* returns seconds since 1970."""

    __slots__ = ("_line", "_until", "_wall_clock")

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:  # noqa: TID251  # the composition root's own
        self._wall_clock = wall_clock
        self._line = b""
        self._until = _BEFORE_ANY_TIME

    def line(self, now: float) -> bytes:
        """Return the `date` header line for the monotonic time *now*, in seconds."""
        if now >= self._until:
            wall = self._wall_clock()
            self._until = now + 1.0 - wall % 1.0
            self._line = b"date: " + formatdate(wall, usegmt=True).encode("ascii") + b"\r\n"
        return self._line


@dataclass(slots=True)
class SharedState:
    """State that all client connections of a server share."""

    connections: set[Any] = field(default_factory=set)
    """Open client connections. On shutdown, the server waits until they are closed."""
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    """Tasks that serve requests. On shutdown, the server waits until they end."""
    stop: Stop = field(default_factory=lambda: Stop(delay_s=0.0, clock=time.monotonic))
    """State of a requested stop of the server. After the request, every answer is the last one on its connection."""
    names: HeaderNames = field(default_factory=HeaderNames)
    addresses: Addresses = field(default_factory=Addresses)
    """Number of open client connections by address."""
    dates: DateLine = field(default_factory=DateLine)

    def admit(
        self, connection: object, client: tuple[str, int] | None, max_connections: int
    ) -> TooManyConnections | None:
        """Count the new connection *connection* of *client* and return None, or return the error to refuse it with."""
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
        """Remove *connection* of *host* from the counts. If *host* is None, it was not counted by address."""
        self.connections.discard(connection)
        self.addresses.leave(host)
