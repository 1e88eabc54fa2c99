"""What is fetched from a worker's port, and when there is nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from simulator.side_channel import NotFetched, Question, SideChannel, fetched

HOST = "127.0.0.1"


@pytest.fixture
async def channel() -> AsyncIterator[SideChannel]:
    async with SideChannel(wait_s=10.0).listening(HOST, 0) as channel:
        yield channel


async def take(channel: SideChannel, key: str, *, waits: bool = False) -> int:
    return await fetched(HOST, channel.port, Question(key, waits), timeout_s=10.0)


async def test_what_is_kept_is_fetched_once(channel: SideChannel) -> None:
    over: list[str] = []
    channel.keep("a", 7, lease_s=600.0, when_over=lambda: over.append("a"))

    assert 7 == await take(channel, "a")
    assert ["a"] == over
    with pytest.raises(NotFetched, match="the blocks do not exist"):
        await take(channel, "a")


async def test_what_no_one_fetches_is_given_up(channel: SideChannel) -> None:
    over = asyncio.Event()
    channel.keep("a", 7, lease_s=0.01, when_over=over.set)
    async with asyncio.timeout(60):
        await over.wait()

    with pytest.raises(NotFetched):
        await take(channel, "a")


async def test_who_comes_too_early_waits(channel: SideChannel) -> None:
    taking = asyncio.ensure_future(take(channel, "room", waits=True))
    while not channel.knows("room"):
        await asyncio.sleep(0)
    channel.hold("room").computed.set_result(9)

    assert 9 == await taking


async def test_what_is_given_up_meanwhile_is_reported(channel: SideChannel) -> None:
    taking = asyncio.ensure_future(take(channel, "room", waits=True))
    while not channel.knows("room"):
        await asyncio.sleep(0)
    channel.forget("room")
    channel.forget("room")

    with pytest.raises(NotFetched, match="were not computed, or have expired"):
        await taking


async def test_no_one_waits_for_ever() -> None:
    async with SideChannel(wait_s=0.01).listening(HOST, 0) as channel:
        with pytest.raises(NotFetched, match="were not computed, or have expired"):
            await take(channel, "room", waits=True)


async def test_a_stranger_gets_no_answer(channel: SideChannel) -> None:
    for said in (b"GET / HTTP/1.1\r\n", b"\n", b"x" * 100_000 + b"\n"):
        reader, writer = await asyncio.open_connection(HOST, channel.port)
        writer.write(said)
        with contextlib.suppress(ConnectionResetError):  # what it said was not read to its end
            assert b"" == await reader.read()
        writer.close()


async def test_where_no_one_is_nothing_is_fetched() -> None:
    async with SideChannel(wait_s=1.0).listening(HOST, 0) as channel:
        port = channel.port
    with pytest.raises(NotFetched):
        await fetched(HOST, port, Question("a"), timeout_s=10.0)


async def test_who_waits_when_the_worker_ends_gets_nothing() -> None:
    async with SideChannel(wait_s=600.0).listening(HOST, 0) as channel:
        taking = asyncio.ensure_future(take(channel, "room", waits=True))
        while not channel.knows("room"):
            await asyncio.sleep(0)
    with pytest.raises(NotFetched):
        await taking


async def test_an_answer_that_does_not_come_is_not_one() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, HOST, 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotFetched):
            await fetched(HOST, port, Question("a"), timeout_s=0.05)


def test_questions_are_lines() -> None:
    assert b'{"key":"a","waits":false}' == msgspec.json.encode(Question("a"))
