"""Channel of the processes of one gateway: a socket to their supervisor, which passes each frame on to all of them."""

import asyncio
import socket
from collections import deque
from typing import Final, cast

from gateway.protocol.errors import StoreUnavailable
from gateway.workers.replicas.bus import Subscription
from gateway.workers.replicas.frame_stream import FrameReader, prefixed

MAX_UNSENT_BYTES: Final = 32 * 2**20
"""Bytes that wait for the supervisor beyond which further frames are lost."""


class HubBus:
    """Channel behind the connected socket *hub*. It is lost when the supervisor ends, and then stays lost."""

    def __init__(self, hub: socket.socket) -> None:
        self._hub = hub
        self._connection: _Connection | None = None

    async def subscribe(self) -> Subscription:
        if self._connection is None:
            loop = asyncio.get_running_loop()
            _, self._connection = await loop.create_unix_connection(_Connection, sock=self._hub)
        if self._connection.is_lost:
            raise _lost()
        return self._connection

    async def publish(self, frame: bytes) -> None:
        if self._connection is None or self._connection.is_lost:
            raise _lost()
        self._connection.send(frame)

    async def run(self) -> None:
        """Wait until canceled, because a lost channel does not come back."""
        await asyncio.get_running_loop().create_future()

    async def aclose(self) -> None:
        if self._connection is None:
            self._hub.close()
        else:
            self._connection.close()


class FixedKey:
    """Key that all processes of a gateway got from their supervisor."""

    def __init__(self, value: bytes) -> None:
        self.value = value

    async def agree(self) -> bool:
        return False


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._frames: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is another one

    def data_received(self, data: bytes) -> None:
        self._frames.extend(self._reader.feed(data))
        self._arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_lost = True
        self._arrived.set()

    def send(self, frame: bytes) -> None:
        if self._transport is not None and self._transport.get_write_buffer_size() < MAX_UNSENT_BYTES:
            self._transport.write(prefixed(frame))

    async def next(self, timeout_s: float) -> bytes | None:  # noqa: ARG002  # without a timeout
        while not self._frames:
            if self.is_lost:
                raise _lost()
            self._arrived.clear()
            await self._arrived.wait()
        return self._frames.popleft()

    async def aclose(self) -> None:
        """Keep the connection for the next subscription."""

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _lost() -> StoreUnavailable:
    return StoreUnavailable("The supervisor of the processes has ended")
