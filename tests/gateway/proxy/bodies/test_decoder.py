"""Bodies decoded in another process are the same, and what takes too much is refused."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import GatewayError, InvalidField, MalformedBody
from gateway.protocol.splice import members_of
from gateway.proxy.bodies.decoder import BodyDecoder

pytestmark = pytest.mark.e2e

CHAT = ENDPOINTS["/v1/chat/completions"]
LONG = b'{"user":"u","model":"tiny","n":2,"messages":[{"role":"user","content":"%b"}]}' % (b"x" * 300_000)


@pytest.fixture
async def reader() -> AsyncIterator[BodyDecoder]:
    reader = BodyDecoder(max_values=300_000, max_cpu_s=30)
    yield reader
    await asyncio.to_thread(reader.close)


async def test_a_long_body_is_read_as_a_short_one_is(reader: BodyDecoder) -> None:
    """Another process reads it, and returns the positions of its fields."""
    body = await reader.read(CHAT, LONG, b"")

    assert CHAT.parse(LONG, b"") == body.changed(places=None)
    assert members_of(LONG) == body.places
    assert len(reader.rss_pids()) == 1


async def test_a_short_body_needs_no_process(reader: BodyDecoder) -> None:
    await reader.read(CHAT, LONG.replace(b"x", b""), b"")

    assert [] == reader.rss_pids()


@pytest.mark.parametrize(("text", "turns"), [("x" * 60_000, 0), ("x" * 100_000, 2), ("a, " * 30_000, 4)])
async def test_other_tasks_run_between_the_steps_of_a_long_body(reader: BodyDecoder, text: str, turns: int) -> None:
    """A step takes about a millisecond: escapes are removed, values are counted, and the body is decoded."""
    raw = LONG.replace(b"x" * 300_000, text.encode())
    loop, passed = asyncio.get_running_loop(), 0

    def count() -> None:
        nonlocal passed
        passed += 1
        loop.call_soon(count)

    loop.call_soon(count)
    body = await reader.read(CHAT, raw, b"")

    assert (CHAT.parse(raw, b""), turns, []) == (body, passed, reader.rss_pids())


async def test_routing_gets_the_first_megabyte_of_a_prompt(reader: BodyDecoder) -> None:
    """Its full length is known as well."""
    raw = b'{"model":"tiny","prompt":"%b"}' % (b"x" * 3_000_000)
    body = await reader.read(ENDPOINTS["/v1/completions"], raw, b"")

    assert (2**20, 3_000_000) == (len(body.prompt), body.prompt_bytes)


async def test_errors_are_the_same_as_for_a_short_body(reader: BodyDecoder) -> None:
    raw = LONG.replace(b'"role":"user"', b'"role":7')
    with pytest.raises(InvalidField) as refusal:
        await reader.read(CHAT, raw, b"")

    assert ("messages[0].role", 400) == (refusal.value.param, refusal.value.status)


async def test_a_body_that_takes_too_long_is_refused() -> None:
    """Its process is ended, and the next body gets another."""
    reader = BodyDecoder(max_values=10**9, max_cpu_s=0.05)
    raw = b'{"model":"m","messages":[{"role":"user","content":[%b{}]}]}' % (b"{}," * 2_000_000)
    try:
        with pytest.raises(MalformedBody, match=r"more than 0\.05 s to decode"):
            await reader.read(CHAT, raw, b"")
        reader._max_cpu_s = 30  # the machine may be slow
        reader._readers[0]._max_cpu_s = 30
        assert (await reader.read(CHAT, LONG, b"")).model == "tiny"
    finally:
        await asyncio.to_thread(reader.close)


async def test_a_process_that_does_not_answer_is_ended() -> None:
    reader = BodyDecoder(max_values=300_000, max_cpu_s=30, max_wait_s=0.01)
    try:
        with pytest.raises(MalformedBody, match=r"to decode \(server\.max_body_cpu_s\)"):
            await reader.read(CHAT, LONG, b"")
    finally:
        await asyncio.to_thread(reader.close)


async def test_a_process_that_was_killed_is_replaced(reader: BodyDecoder, caplog: pytest.LogCaptureFixture) -> None:
    """The body that finds it gone fails with a 500; the log says how the process ended."""
    await reader.read(CHAT, LONG, b"")
    os.kill(reader.rss_pids()[0], signal.SIGKILL)
    with pytest.raises(GatewayError, match="failed to read the request body"):
        await reader.read(CHAT, LONG, b"")

    assert (await reader.read(CHAT, LONG, b"")).n == 2
    assert ["a body decoder process ended unexpectedly with exit code -9"] == caplog.messages


async def test_processes_end_with_the_decoder(reader: BodyDecoder) -> None:
    await reader.read(CHAT, LONG, b"")
    pid = reader.rss_pids()[0]
    await asyncio.to_thread(reader.close)

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
