"""A TCP proxy that breaks what passes through it, for tests that put it between the gateway and a worker.

It knows nothing of HTTP, and what it does can be changed at any time, for connections that are open as well:

    refused     no one listens, as after the end of a process
    resets      every open connection ends with RST, and so does every new one
    cut         FIN, or RST, after so many bytes of an answer
    half open   connections are taken, and nothing passes: upwards, downwards, or both
    slow        every piece late, or in drips
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

Direction = Literal["up", "down"]
"""Up is towards the worker."""
BOTH: frozenset[Direction] = frozenset(("up", "down"))

_READ_BYTES = 65_536
_LINGER_ZERO = struct.pack("ii", 1, 0)  # struct linger {on, seconds}: closing sends RST instead of FIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """What happens to bytes; by default they pass."""

    delay_s: float = 0.0
    """Before every piece, either way."""
    piece_bytes: int | None = None
    """No more at a time, either way: with a delay, a slow drip."""
    cut_after: int | None = None
    """Bytes downwards on one connection, counted since this passage holds; then it ends."""
    with_reset: bool = False
    """It ends by RST, not FIN."""
    held: frozenset[Direction] = frozenset()
    """In these directions nothing passes, the end of a connection included."""
    resets: bool = False
    """Every connection ends by RST, and so does every new one."""


FREE = Passage()


class _Cut(Exception):
    """The proxy ends a connection."""


class _Line:
    """One connection of a client with the one to the worker that belongs to it."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self._writers = writers
        self.passed_down = 0

    def close(self) -> None:
        for writer in self._writers:
            writer.close()

    def reset(self) -> None:
        for writer in self._writers:
            with suppress(OSError):  # it may be closed already
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
            writer.transport.abort()


class FaultProxy:
    """Between its own port and the *target* at a host and port. To be had from `fault_proxy`."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._port = 0
        self._server: asyncio.Server | None = None
        self._lines: set[_Line] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._passage = FREE
        self._changed = asyncio.Event()
        self.accepted = 0
        """Connections so far."""

    @property
    def url(self) -> str:
        """Without a trailing slash."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def open(self) -> int:
        """Connections that are open now."""
        return len(self._lines)

    def set(self, passage: Passage) -> None:
        """From now on, for connections that are open as well."""
        self._passage = passage
        self._changed.set()
        self._changed = asyncio.Event()
        for line in self._lines:
            line.passed_down = 0
        if passage.resets:
            self.reset()

    def reset(self) -> None:
        """End every connection that is open by RST."""
        for line in tuple(self._lines):
            line.reset()

    async def refuse(self) -> None:
        """Stop listening: connections are refused, and those that are open end. Of no effect where no one listens."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for line in tuple(self._lines):
            line.close()
        await self._ended()
        await server.wait_closed()

    async def listen(self) -> None:
        """Listen again, on the same port. Of no effect where somebody listens."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.refuse()
        await self._ended()

    async def _ended(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            return  # asyncio's server would log it
        finally:
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._passage.resets:
            _Line(writer).reset()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _Line(writer).reset()
            return
        line = _Line(writer, up_writer)
        self._lines.add(line)
        pumps = [
            asyncio.ensure_future(self._pump("up", line, reader, up_writer)),
            asyncio.ensure_future(self._pump("down", line, up_reader, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            line.close()
            self._lines.discard(line)
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, direction: Direction, line: _Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass bytes on until the end of the connection, or until it is cut."""
        with suppress(_Cut, OSError):
            while data := await reader.read(_READ_BYTES):
                while data:
                    passage = await self._next_passage(direction)
                    room = self._room(passage, direction, line)
                    piece = data[: min(passage.piece_bytes or len(data), room)]
                    writer.write(piece)
                    await writer.drain()
                    data = data[len(piece) :]
                    if direction == "down":
                        line.passed_down += len(piece)
                        self._cut(passage, line)
            await self._next_passage(direction)

    async def _next_passage(self, direction: Direction) -> Passage:
        while True:
            passage, changed = self._passage, self._changed
            if direction not in passage.held and not passage.delay_s:
                return passage
            try:
                await asyncio.wait_for(changed.wait(), None if direction in passage.held else passage.delay_s)
            except TimeoutError:
                return passage

    def _room(self, passage: Passage, direction: Direction, line: _Line) -> int:
        if direction == "up" or passage.cut_after is None:
            return _READ_BYTES
        return max(0, passage.cut_after - line.passed_down)

    def _cut(self, passage: Passage, line: _Line) -> None:
        if passage.cut_after is None or line.passed_down < passage.cut_after:
            return
        if passage.with_reset:
            line.reset()
        raise _Cut


@asynccontextmanager
async def fault_proxy(url: str) -> AsyncIterator[FaultProxy]:
    """A proxy before the worker at *url*, on a port of its own; it ends with the block, and all its connections."""
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    proxy = FaultProxy((place.hostname, place.port))
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.aclose()
