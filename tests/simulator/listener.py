"""A subscriber to a simulated worker's KV events, as plain as ZMQ has it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
import zmq
import zmq.asyncio

TIMEOUT_S = 10
END = b"\xff" * 8


@dataclass(frozen=True)
class Message:
    topic: bytes
    sequence: int
    sent_at: float
    events: list[Any]
    rank: int


def message(topic: bytes, sequence: bytes, payload: bytes) -> Message:
    return Message(topic, int.from_bytes(sequence, "big"), *msgspec.msgpack.decode(payload))


class Listener:
    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self._socket = socket

    async def next(self) -> Message:
        async with asyncio.timeout(TIMEOUT_S):
            return message(*await self._socket.recv_multipart())

    async def hear(self, worker: httpx.AsyncClient) -> None:
        """Clear the worker's cache until it is heard of, and take in all that was sent by then.

        A publisher sends nothing to those whose subscription it has not read yet.
        """
        async with asyncio.timeout(TIMEOUT_S):
            while not await self._socket.poll(50):
                await worker.post("/control/reset")
        last = (await worker.get("/control/kv_events")).json()["next_sequence"] - 1
        while (await self.next()).sequence != last:
            pass


@asynccontextmanager
async def listening(endpoint: str, *, topic: bytes = b"", binds: bool = False) -> AsyncIterator[Listener]:
    with zmq.asyncio.Context() as context, context.socket(zmq.SUB) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.subscribe(topic)
        if binds:
            socket.bind(endpoint)
        else:
            socket.connect(endpoint)
        yield Listener(socket)


async def replayed(endpoint: str, first: int) -> list[list[bytes]]:
    """The frames that answer a question for all from *first* on, end included."""
    frames: list[list[bytes]] = []
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(endpoint)
        await socket.send_multipart((b"", first.to_bytes(8, "big")))
        async with asyncio.timeout(TIMEOUT_S):
            while not frames or END not in frames[-1]:
                frames.append(await socket.recv_multipart())
    return frames


def free_port() -> int:
    """One that no one listens on at this moment."""
    import socket

    with closing(socket.create_server(("127.0.0.1", 0))) as held:
        return int(held.getsockname()[1])
