"""The control side of a model server, over a real socket: each path answers as a test says, others 404."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Page:
    """A whole answer."""

    body: str = ""
    status: int = 200
    after_s: float = 0.0
    """SGLang's `/health` takes its time."""


@dataclass(frozen=True)
class Hangs:
    """Not a byte comes."""


@dataclass(frozen=True)
class Drips:
    """An answer that goes on for ever, a byte at a time."""


@dataclass(frozen=True)
class Floods:
    """An answer that goes on for ever, as fast as it is read."""

    line: bytes = b"x\n"


@dataclass(frozen=True)
class Garbage:
    """Bytes that are no HTTP; none: the connection is closed at once."""

    raw: bytes = b""


Answer = Page | Hangs | Drips | Floods | Garbage


@dataclass
class FakeEngine:
    """Answers can be changed while it runs."""

    answers: dict[str, Answer]
    url: str = ""
    asked: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    """Empty of what has none."""
    connections: int = 0
    sent: int = 0
    """Bytes of floods."""

    def times(self, path: str) -> int:
        return self.asked.count(path)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ", 2)[1]
                self.asked.append(path)
                self.heads.append(head.lower())
                length = re.search(r"\r\ncontent-length: (\d+)", head.lower())
                self.bodies.append(await reader.readexactly(int(length[1]) if length else 0))
                await self._answer(self.answers.get(path, Page(status=404)), writer)
                await writer.drain()

    async def _answer(self, answer: Answer, writer: asyncio.StreamWriter) -> None:
        endless = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"
        match answer:
            case Page():
                await asyncio.sleep(answer.after_s)
                body = answer.body.encode()
                writer.write(f"HTTP/1.1 {answer.status} x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            case Hangs():
                await asyncio.Event().wait()
            case Drips():
                writer.write(endless)
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            case Floods():
                writer.write(endless)
                piece = answer.line * (65536 // len(answer.line))
                while True:
                    writer.write(piece)
                    self.sent += len(piece)
                    await writer.drain()
            case Garbage():
                writer.write(answer.raw)
                await writer.drain()
                raise ConnectionResetError


@asynccontextmanager
async def fake_engine(answers: Mapping[str, Answer]) -> AsyncIterator[FakeEngine]:
    """An engine at a free port of this machine; at the end its connections are cut."""
    engine = FakeEngine(dict(answers))
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        engine.connections += 1
        with contextlib.closing(writer):
            try:
                await engine.serve(reader, writer)
            except asyncio.CancelledError:
                writer.transport.abort()
            finally:
                connections.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    engine.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield engine
    finally:
        server.close()
        for task in [*connections]:
            task.cancel()
        await asyncio.gather(*connections)
