import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from benchmarks.peers.routing.asking import Answer, Door
from tests.benchmarks.listening import listening

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"t"}}]}\n\n'
DONE = b"data: [DONE]\n\n"

Write = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def asked(
    write: Write, *, timeout_s: float = 10.0, late_s: float = 0.0, key: str | None = None
) -> tuple[Answer, bytes]:
    """Return the outcome of one request that *write* answers, and its bytes."""
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.readuntil(b'{"a":1}'))
        await write(writer)

    async with listening(serve) as url:
        answer = await Door(url, timeout_s=timeout_s, key=key).ask(b'{"a":1}', due=time.monotonic() - late_s)
    return answer, bytes(received)


def sends(*pieces: bytes) -> Write:
    async def write(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return write


async def test_a_request_is_a_chat_with_its_length() -> None:
    _, received = await asked(sends(HEAD, EVENT, DONE))

    assert received.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"\r\ncontent-length: 7\r\n" in received
    assert b"authorization" not in received


async def test_a_key_is_sent_where_one_is_wanted() -> None:
    _, received = await asked(sends(HEAD, EVENT, DONE), key="k-1")

    assert b"\r\nauthorization: Bearer k-1\r\n" in received


@pytest.mark.e2e
async def test_the_first_token_is_the_first_event_that_is_no_comment() -> None:
    """It comes when the comment has been there for a while, and long before the end."""
    may_go_on = asyncio.Event()

    async def write(writer: asyncio.StreamWriter) -> None:
        await sends(HEAD, b": still here\n\n")(writer)
        await asyncio.sleep(0.05)
        await sends(EVENT[:4], EVENT[4:])(writer)
        await asyncio.sleep(0.05)
        may_go_on.set()
        await sends(DONE)(writer)

    answer, _ = await asked(write)

    assert answer.failure is None
    assert 0.05 <= answer.ttft_s <= answer.e2e_s - 0.04
    assert may_go_on.is_set()


async def test_times_are_from_when_the_request_was_due() -> None:
    answer, _ = await asked(sends(HEAD, EVENT, DONE), late_s=100.0)

    assert 100.0 <= answer.late_s <= answer.ttft_s <= answer.e2e_s


@pytest.mark.parametrize(
    ("failure", "pieces"),
    [
        ("503", [b"HTTP/1.1 503 Service Unavailable\r\n\r\n", EVENT, DONE]),
        ("cut", [HEAD, EVENT]),
        ("empty", [HEAD, DONE]),
        ("cut", []),
        ("empty", [HEAD]),
        ("error event", [HEAD, EVENT, b'data: {"error":{"message":"no"}}\n\n', DONE]),
    ],
)
async def test_an_answer_that_is_not_whole_is_a_failure(failure: str, pieces: list[bytes]) -> None:
    answer, _ = await asked(sends(*pieces))

    assert failure == answer.failure


@pytest.mark.e2e
async def test_an_answer_that_does_not_come_is_a_failure() -> None:
    never = asyncio.Event()

    async def write(_: asyncio.StreamWriter) -> None:
        try:
            await asyncio.wait_for(never.wait(), 60)
        finally:
            never.set()

    async def hang_up() -> None:
        await asyncio.sleep(0.3)
        never.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hang_up())
        answer, _ = await asked(write, timeout_s=0.1)

    assert "timeout" == answer.failure


async def test_no_one_there_is_a_failure() -> None:
    async with listening(lambda _, __: asyncio.sleep(0)) as url:
        pass
    answer = await Door(url, timeout_s=10.0).ask(b"{}", due=time.monotonic())

    assert "ConnectionRefusedError" == answer.failure


def test_a_door_has_a_port() -> None:
    with pytest.raises(ValueError, match="no port"):
        Door("http://127.0.0.1", timeout_s=1.0)
