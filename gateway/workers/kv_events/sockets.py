"""Our ends of the sockets of engines that the gateway dials.

libzmq bounds the bytes of a part, not the parts of a message, and keeps a message until its last part is there. So an
engine that lies could fill the memory, and the sockets here are our own.
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
"""vLLM up to 0.32 drops of a replay what exceeds 1,000 messages at its end, so ours has to take it as fast as the
network brings it: 10,000 steps are some 5 MB. What was dropped is asked for again."""
CONNECT_S = 10.0
RECONNECT_S = 0.1
RECONNECT_MAX_S = 5.0
"""Longest time between two attempts; doubled up to this."""

Connect = Callable[[Callable[[], ZmtpConnection]], Any]


class Dialed:
    """A socket that dials one engine, again and again; made by `subscription` and `replay`."""

    def __init__(
        self, endpoint: str, role: SocketRole, *, topic: bytes = b"", read_ahead_bytes: int = READ_AHEAD_BYTES
    ) -> None:
        """Raises ValueError if *endpoint* is not an address."""
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
        """Connections that were opened."""
        self.held_bytes = 0
        """Bytes that were received and not taken yet."""

    async def ready(self) -> None:
        """Wait until there may be something to read."""
        await self._news.wait()

    def read(self) -> list[bytes] | Link | ReadProgress:
        """Return a message, news of a connection before and after its messages, or `ReadProgress.IDLE` at the end."""
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
        """Connect until cancelled, or, *is_once*, until a connection that was heard has ended."""
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
        """Open one connection, and wait for its end; return whether it was a good one."""
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
        """Accept any number: the limits of one connection bound it."""
        self.held_bytes += more_bytes
        return True

    def refuse(self, connection: ZmtpConnection, reason: str) -> None:
        """End *connection*; the log says why, once for each reason."""
        self._is_refused = True
        if reason not in self._logged:
            self._logged.add(reason)
            _log.warning("ended the connection to %s for KV events: %s", self._endpoint, reason)
        connection.abort()


@asynccontextmanager
async def subscription(endpoint: str, *, topic: str = "") -> AsyncIterator[Dialed]:
    """Return a socket that hears what is published at *endpoint* under topics that begin with *topic*.

    Raises:
        ValueError: *endpoint* is not an address.
    """
    dialed = Dialed(endpoint, subscriber(topic.encode()), topic=topic.encode())
    async with _running(dialed, is_once=False):
        yield dialed


@asynccontextmanager
async def replay(endpoint: str, request: Sequence[bytes]) -> AsyncIterator[Dialed]:
    """Return a socket for one question to an engine's ROUTER. A new one each time: late answers to another are dropped.

    Raises:
        ValueError: *endpoint* is not an address.
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
    """Return the function that connects to *endpoint*."""
    kind, _, place = endpoint.partition("://")
    host, _, port = place.rpartition(":")
    if kind == "tcp" and host and port.isdecimal() and 0 < int(port) < 65536:
        return lambda make: asyncio.get_running_loop().create_connection(make, host.strip("[]"), int(port))
    if kind == "ipc" and place:
        path = "\0" + place[1:] if place.startswith("@") else place
        return lambda make: asyncio.get_running_loop().create_unix_connection(make, path)
    raise ValueError(f"{endpoint!r} is not an address to connect to, such as tcp://host:port or ipc://path")
