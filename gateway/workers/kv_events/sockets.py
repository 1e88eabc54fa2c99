"""Client sockets for the gateway's connections to engines.

libzmq limits the size of a message part but not the number of parts, and it stores all parts until the last one
arrives. A faulty engine could fill the memory, so the gateway does not use libzmq.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from gateway.workers.kv_events.connection import MAX_MESSAGE_BYTES, READ_AHEAD_BYTES, Link, ZmtpConnection
from gateway.workers.kv_events.zmtp import ReadProgress, SocketRole, ZmtpSession, dealer, subscriber

_log = logging.getLogger(__name__)

REPLAY_AHEAD_BYTES = 32 * 2**20
"""Number of bytes of a replay that can be buffered. vLLM up to 0.32 drops a replay's messages after the first 1,000 if
they are not read fast enough. A replay of 10,000 steps takes about 5 MB. Dropped messages are requested again.
"""
CONNECT_S = 10.0
RECONNECT_S = 0.1
RECONNECT_MAX_S = 5.0
"""Maximum delay between two connection attempts, in seconds. The delay doubles up to this value."""

Connect = Callable[[Callable[[], ZmtpConnection]], Any]


class Dialed:
    """Socket that connects to one engine and reconnects on failure. `subscription` or `replay` creates it."""

    def __init__(
        self, endpoint: str, role: SocketRole, *, topic: bytes = b"", read_ahead_bytes: int = READ_AHEAD_BYTES
    ) -> None:
        """Create the socket. Raise ValueError if *endpoint* is not a valid address."""
        self._endpoint = endpoint
        self._connect = _connect_of(endpoint)
        self._role = role
        self._topic = topic
        self._read_ahead_bytes = read_ahead_bytes
        self._connections: deque[ZmtpConnection] = deque()
        self._news = asyncio.Event()
        self._ended = asyncio.Event()
        self._logged: set[str] = set()
        self._is_refused = False
        self.links = 0
        """Number of connections that the socket has opened."""
        self.held_bytes = 0
        """Number of received but unprocessed bytes."""

    async def ready(self) -> None:
        """Wait until there might be data to read."""
        await self._news.wait()

    def read(self) -> list[bytes] | Link | ReadProgress:
        """Return the next message or connection state change, or `ReadProgress.IDLE` if no data is pending."""
        while self._connections:
            connection = self._connections[0]
            found = connection.read()
            if found is ReadProgress.IDLE:
                if not connection.has_ended:
                    break
                self._connections.popleft()
                continue
            if found is Link.UP:
                self.links += 1
            if isinstance(found, list) and not found[0].startswith(self._topic):
                return ReadProgress.BUSY
            return found
        self._news.clear()
        return ReadProgress.IDLE

    async def run(self, *, is_once: bool) -> None:
        """Connect repeatedly until canceled. If *is_once* is true, return after one successful connection has ended."""
        wait_s = RECONNECT_S
        try:
            while not (is_once and self.links):
                if await self._dial():
                    wait_s = RECONNECT_S
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, RECONNECT_MAX_S)
        finally:
            for connection in self._connections:
                connection.abort()

    async def _dial(self) -> bool:
        """Open one connection and wait for its end. Return False if it failed or violated the protocol."""
        self._ended.clear()
        self._is_refused = False
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._connect(self._connection)
        except OSError:
            return False
        await self._ended.wait()
        return not self._is_refused

    def _connection(self) -> ZmtpConnection:
        conversation = ZmtpSession(max_message_bytes=MAX_MESSAGE_BYTES, role=self._role)
        return ZmtpConnection(self, conversation, read_ahead_bytes=self._read_ahead_bytes)

    # ---- called by connections

    def opened(self, connection: ZmtpConnection) -> bool:
        self._connections.append(connection)
        return True

    def has_news(self, connection: ZmtpConnection) -> None:  # noqa: ARG002  # there is one at a time
        self._news.set()

    def closed(self, connection: ZmtpConnection) -> None:  # noqa: ARG002
        self._news.set()
        self._ended.set()

    def hold(self, more_bytes: int) -> bool:
        """Accept any number of bytes, because the buffer limit of the connection itself applies."""
        self.held_bytes += more_bytes
        return True

    def refuse(self, connection: ZmtpConnection, reason: str) -> None:
        """Close *connection* and log the reason, once per reason."""
        self._is_refused = True
        if reason not in self._logged:
            self._logged.add(reason)
            _log.warning("ended the connection to %s for KV events: %s", self._endpoint, reason)
        connection.abort()


@asynccontextmanager
async def subscription(endpoint: str, *, topic: str = "") -> AsyncIterator[Dialed]:
    """Open a socket that receives the messages published at *endpoint* whose topics start with *topic*.

    Raises:
        ValueError: if *endpoint* is not a valid address.
    """
    dialed = Dialed(endpoint, subscriber(topic.encode()), topic=topic.encode())
    async with _running(dialed, is_once=False):
        yield dialed


@asynccontextmanager
async def replay(endpoint: str, request: Sequence[bytes]) -> AsyncIterator[Dialed]:
    """Open a socket for one request to an engine's ROUTER. Each request uses a new socket, which drops late replies to
    others.

    Raises:
        ValueError: if *endpoint* is not a valid address.
    """
    dialed = Dialed(endpoint, dealer(request), read_ahead_bytes=REPLAY_AHEAD_BYTES)
    async with _running(dialed, is_once=True):
        yield dialed


@asynccontextmanager
async def _running(dialed: Dialed, *, is_once: bool) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        dialing = tasks.create_task(dialed.run(is_once=is_once))
        try:
            yield
        finally:
            dialing.cancel()


def _connect_of(endpoint: str) -> Connect:
    """Return a function that opens a connection to *endpoint*."""
    kind, _, place = endpoint.partition("://")
    host, _, port = place.rpartition(":")
    if kind == "tcp" and host and port.isdecimal() and 0 < int(port) < 65536:
        return lambda make: asyncio.get_running_loop().create_connection(make, host.strip("[]"), int(port))
    if kind == "ipc" and place:
        path = "\0" + place[1:] if place.startswith("@") else place
        return lambda make: asyncio.get_running_loop().create_unix_connection(make, path)
    raise ValueError(f"{endpoint!r} is not a valid address, such as tcp://host:port or ipc://path")
