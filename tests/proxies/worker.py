"""A worker that sends the next event of a stream only when it is let: what has come by then was not held back."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

COUNT = 12
"""Events of a stream; together they are smaller than every buffer on the way."""


@dataclass
class Steps:
    url: str
    next: asyncio.Semaphore
    """To be released for each event."""


@asynccontextmanager
async def stepping() -> AsyncIterator[Steps]:
    """A worker of which every stream waits for its steps."""
    step = asyncio.Semaphore(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await _answer(reader, writer, step)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Steps(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", step)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, step: asyncio.Semaphore) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = [line.split(b":")[1] for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
    await reader.readexactly(int(length[0]) if length else 0)
    if not head.startswith(b"post /v1/chat/completions "):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}")
        return
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n")
    for number in range(COUNT):
        await step.acquire()
        _write_event(writer, json.dumps(_chunk(f"{number} ", None)))
    _write_event(writer, json.dumps(_chunk("", "stop")))
    _write_event(writer, "[DONE]")
    writer.write(b"0\r\n\r\n")


def _chunk(text: str, finish: str | None) -> dict[str, object]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}


def _write_event(writer: asyncio.StreamWriter, data: str) -> None:
    event = f"data: {data}\n\n".encode()
    writer.write(b"%x\r\n%b\r\n" % (len(event), event))
