"""An HTTP/1.1 server whose every byte is in the hands of the test."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    line: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        return dict(self.headers).get(name)


@dataclass(frozen=True, slots=True)
class Wire:
    """The connection as a script sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_pieces(self, *pieces: bytes) -> None:
        """Each piece leaves in a packet of its own."""
        for piece in pieces:
            await self.send(piece)
            await asyncio.sleep(0.002)

    async def close(self) -> None:
        self.writer.close()
        await self.until_caller_left()

    def reset(self) -> None:
        """Close so that the other side sees ECONNRESET."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def until_caller_left(self) -> None:
        try:
            while await self.reader.read(65_536):
                pass
        except ConnectionError:
            pass


Script = Callable[[Request, Wire], Awaitable[None]]


class Peer:
    """Runs its script once per request and remembers what came."""

    def __init__(self, script: Script, *, scheme: str) -> None:
        self._script = script
        self._scheme = scheme
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.connections = 0
        self.requests: list[Request] = []
        self.left = asyncio.Event()
        """The caller closed a connection, or the script did."""

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        wire = Wire(reader, writer)
        try:
            while not writer.transport.is_closing():
                request = await _read_request(reader)
                self.requests.append(request)
                await self._script(request, wire)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.left.set()
            writer.transport.abort()

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def serving(script: Script, *, ssl_context: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    peer = Peer(script, scheme="https" if ssl_context else "http")
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, ssl=ssl_context, limit=1 << 20)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
        await peer.stop()


def free_port() -> int:
    """A port on which no one listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = await reader.readuntil(b"\r\n\r\n")
    line, *fields = head[:-4].split(b"\r\n")
    headers = [(name.lower(), value.strip()) for name, _, value in (field.partition(b":") for field in fields)]
    length = int(dict(headers).get(b"content-length", b"0"))
    return Request(line, headers, await reader.readexactly(length))
