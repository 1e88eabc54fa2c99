"""The hub of the processes passes whole frames on to all of them, with bounded memory."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from gateway.app.processes.message_hub import MAX_UNSENT_BYTES, MessageHub
from gateway.workers.replicas.frame_stream import MAX_FRAME_BYTES, FrameReader, prefixed


@pytest.fixture
async def hub() -> AsyncIterator[MessageHub]:
    made = MessageHub()
    yield made
    made.close()


async def connected(hub: MessageHub) -> socket.socket:
    made = await hub.connect()
    made.setblocking(False)
    return made


async def frames(process: socket.socket, count: int) -> list[bytes]:
    reader, found = FrameReader(), list[bytes]()
    loop = asyncio.get_running_loop()
    while len(found) < count:
        found += reader.feed(await loop.sock_recv(process, 2**20))
    return found


async def send(process: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(process, data)


async def test_each_frame_reaches_all_processes(hub: MessageHub) -> None:
    """Also the one that sent it, and also a frame that was sent in two parts while another process sends."""
    one, two = await connected(hub), await connected(hub)
    await send(one, prefixed(b"first") + prefixed(b"second")[:5])
    assert [b"first"] == await frames(two, 1)
    await send(two, prefixed(b"between"))
    assert [b"between"] == await frames(two, 1)
    await send(one, prefixed(b"second")[5:])

    assert [b"first", b"between", b"second"] == await frames(one, 3)
    assert [b"second"] == await frames(two, 1)
    one.close()
    two.close()


async def test_a_process_that_has_ended_gets_nothing(hub: MessageHub) -> None:
    """Others go on."""
    one, two = await connected(hub), await connected(hub)
    two.close()
    await send(one, prefixed(b"still here"))

    assert [b"still here"] == await frames(one, 1)
    one.close()


async def test_a_process_that_sends_no_frames_is_cut_off(hub: MessageHub) -> None:
    one, two = await connected(hub), await connected(hub)
    await send(one, (MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
    assert b"" == await asyncio.get_running_loop().sock_recv(one, 1)
    await send(two, prefixed(b"still here"))

    assert [b"still here"] == await frames(two, 1)
    one.close()
    two.close()


async def test_a_process_that_does_not_read_misses_frames(hub: MessageHub) -> None:
    """The hub keeps a bounded amount for it. A process that reads gets all."""
    one, slow = await connected(hub), await connected(hub)
    frame = bytes(2**20)
    count = 2 * MAX_UNSENT_BYTES // len(frame)
    async with asyncio.TaskGroup() as tasks:
        read = tasks.create_task(frames(one, count))
        for _ in range(count):
            await send(one, prefixed(frame))
    hub.close()
    received, loop = 0, asyncio.get_running_loop()
    while data := await loop.sock_recv(slow, 2**20):
        received += len(data)
    one.close()
    slow.close()

    assert count == len(read.result())
    assert MAX_UNSENT_BYTES <= received <= MAX_UNSENT_BYTES + 2 * 2**20
