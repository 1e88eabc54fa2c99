"""Exchange of frames between the processes of one gateway: the supervisor sends each frame to all processes."""

import asyncio
import socket
from typing import Final, cast

from gateway.workers.replicas.frame_stream import FrameReader, prefixed

MAX_UNSENT_BYTES: Final = 32 * 2**20
"""Bytes that wait for one process beyond which it misses frames. It then asks the others for snapshots."""


class MessageHub:
    """Hub of the processes. A process gets its own frames, too, which shows it that the hub works."""

    def __init__(self) -> None:
        self._connections: set[_Connection] = set()

    async def connect(self) -> socket.socket:
        """Return a socket for a new process. The caller closes it when the process has inherited it."""
        ours, theirs = socket.socketpair()
        await asyncio.get_running_loop().create_unix_connection(lambda: _Connection(self._connections), sock=ours)
        return theirs

    def close(self) -> None:
        for each in tuple(self._connections):
            each.close()


class _Connection(asyncio.Protocol):
    def __init__(self, connections: "set[_Connection]") -> None:
        self._connections = connections
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is another one
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._reader.feed(data)
        except ValueError:  # the process sends no frames
            self.close()
            return
        if frames:
            together = b"".join(map(prefixed, frames))
            for each in self._connections:
                each.send(together)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._connections.discard(self)

    def send(self, data: bytes) -> None:
        if self._transport is not None and self._transport.get_write_buffer_size() < MAX_UNSENT_BYTES:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
