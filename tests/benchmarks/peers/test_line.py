import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from benchmarks.peers.line import Lines, wire
from benchmarks.stub_worker import EVENTS_PER_STREAM, Pace, serve, write_script
from tests.benchmarks.listening import listening

PLAIN, STREAM = wire(b'{"model":"tiny"}'), wire(b'{"stream":true}')
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    server = await serve(write_script("tiny"))
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


def saying(*pieces: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """A server that says *pieces* one by one to every request, and hangs up."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return say


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_an_answer_has_its_times_in_their_order(url: str) -> None:
    """Due, sent, first byte, last byte."""
    lines = Lines(url)
    answer = await lines.ask(PLAIN, due_s=time.monotonic() - 1)
    lines.close()

    assert ("whole", 200) == (answer.end, answer.status)
    assert answer.sent_s is not None
    assert answer.first_s is not None
    assert answer.last_s is not None
    assert answer.due_s + 1 <= answer.sent_s <= answer.first_s <= answer.last_s


async def test_a_stream_is_whole_with_all_its_events(url: str) -> None:
    """``[DONE]`` counts as none."""
    lines = Lines(url)
    answer = await lines.ask(STREAM, due_s=time.monotonic(), streams=True)
    lines.close()

    assert ("whole", EVENTS_PER_STREAM) == (answer.end, answer.events)


async def test_a_connection_is_used_again() -> None:
    connections = 0

    async def answer_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for _ in range(2):
            await reader.readuntil(b'"}')
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    async with listening(answer_twice) as url:
        lines = Lines(url)
        ends = [(await lines.ask(PLAIN, due_s=time.monotonic())).end for _ in range(2)]
        lines.close()

    assert (1, ["whole", "whole"]) == (connections, ends)


@pytest.mark.parametrize(
    ("pieces", "end"),
    [
        ([b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"], "status 503"),
        ([CHUNKED, chunk(b'data: {"id":1}\n\n')], "cut"),
        ([CHUNKED, chunk(b'data: {"error":{}}\n\ndata: [DONE]\n\n'), b"0\r\n\r\n"], "error event"),
        ([CHUNKED, chunk(b'data: {"id":1}\n\n'), b"0\r\n\r\n"], "cut"),
        ([CHUNKED, chunk(b'data: {"id":1}\n\ndata: [DO'), chunk(b"NE]\n\n"), b"0\r\n\r\n"], "whole"),
        ([b"What?\r\n\r\n"], "no HTTP"),
    ],
)
async def test_what_was_wrong_is_reported(pieces: list[bytes], end: str) -> None:
    """Each way to fail has its name, and a mark in two pieces is seen."""
    async with listening(saying(*pieces)) as url:
        lines = Lines(url)
        answer = await lines.ask(STREAM, due_s=time.monotonic(), streams=True)
        lines.close()

    assert end == answer.end


async def test_an_event_in_two_pieces_is_one() -> None:
    """Wherever it is cut."""
    text = b'data: {"id":1}\n\ndata: {"id":2}\n\ndata: [DONE]\n\n'
    for at in range(1, len(text)):
        pieces = [CHUNKED, chunk(text[:at]), chunk(text[at:]), b"0\r\n\r\n"]
        async with listening(saying(*pieces)) as url:
            answer = await Lines(url).ask(STREAM, due_s=time.monotonic(), streams=True)

        assert ("whole", 2) == (answer.end, answer.events)


@pytest.mark.e2e
async def test_who_does_not_answer_in_time_is_late() -> None:
    """The time counts from when the request was due."""
    server = await serve(write_script("tiny"), pace=Pace(first_byte_s=60.0))
    lines = Lines(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    answer = await lines.ask(PLAIN, due_s=time.monotonic() - 10, timeout_s=10.01)
    server.close()

    assert "late" == answer.end


async def test_who_does_not_listen_is_not_connected() -> None:
    """It is an answer like any other to the one who counts."""
    answer = await Lines("http://127.0.0.1:1").ask(PLAIN, due_s=0.0)

    assert ("not connected", False) == (answer.end, answer.is_whole)
