"""Body of one direction of a request, which arrives in chunks and waits in memory until it is read."""

import asyncio
from collections import deque
from collections.abc import Callable

MAX_BYTES = 2**20
"""Bytes that wait in memory. A longer body waits in Envoy, because the gateway does not permit it to send more."""


class Chunks:
    """Queue of chunks. The sender must wait while `is_full` is true. One task reads."""

    __slots__ = ("_bytes", "_chunks", "_filled", "_is_discarded", "_on_room", "ended", "min_bytes")

    def __init__(self, on_room: Callable[[], None], *, min_bytes: int = 1) -> None:
        """Create an empty queue. *on_room* is called when a full queue has room again."""
        self.min_bytes = min_bytes
        """Number of bytes for which a read waits, or for the end. Do not change it while a read waits."""
        self._chunks: deque[bytes] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        self._on_room = on_room
        self._is_discarded = False
        self.ended = False
        """Whether the last chunk was written."""

    @property
    def is_empty(self) -> bool:
        """Whether no chunk waits to be read."""
        return not self._chunks

    @property
    def is_full(self) -> bool:
        """Whether too many bytes wait to be read."""
        return self._bytes > MAX_BYTES

    def put(self, data: bytes) -> None:
        """Add a chunk. Chunks after the end are ignored."""
        if self.ended or self._is_discarded or not data:
            return
        self._chunks.append(data)
        self._bytes += len(data)
        if self._bytes >= self.min_bytes:
            self._filled.set()

    def end(self) -> None:
        """Record that no more chunks follow."""
        self.ended = True
        self._filled.set()

    async def get(self) -> bytes:
        """Return all bytes that have arrived, and wait until they are enough. Return ``b""`` at the end."""
        while self._bytes < self.min_bytes and not self.ended:
            self._filled.clear()
            await self._filled.wait()
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._empty()
        return data

    def discard(self) -> None:
        """Drop the chunks that wait and all later ones, because nothing reads them."""
        self._is_discarded = True
        self._empty()

    def _empty(self) -> None:
        was_full = self.is_full
        self._chunks.clear()
        self._bytes = 0
        if was_full:
            self._on_room()
