"""Headers that decide before the body arrives (`picker.session_header_decides`), with a real Envoy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.governed import GATEWAY
from tests.picker.configuration import Pool
from tests.picker.rig import PATIENCE_S, Rig, before, picker, rig, simulated

SESSION: Any = {"strategy": "session"}
HEADERS = {"x-session-id": "one"}
LONG = {"max_model_len": 2_000_000, "blocks": 200_000}
BODY = b'{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}'


@asynccontextmanager
async def half_sent(there: Rig) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Send the headers and the beginning of a body."""
    host, _, port = there.envoy.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\nx-session-id: one\r\n"
        )
        writer.write(f"{head}content-length: {len(BODY)}\r\n\r\n".encode() + BODY[:20])
        yield reader, writer
    finally:
        writer.close()


async def test_envoy_calls_the_worker_before_the_body_is_complete(tmp_path: Path) -> None:
    async with (
        rig(tmp_path, 2, model=SESSION, session_header_decides=True) as there,
        half_sent(there) as (reader, writer),
    ):
        async with asyncio.timeout(PATIENCE_S):
            while not await there.envoy.counter("cluster.pool.upstream_rq_total"):
                await asyncio.sleep(0.05)
            writer.write(BODY[20:])
            status = await reader.readline()

    assert b"HTTP/1.1 200 OK" == status.strip()


async def test_a_worker_that_is_gone_ends_the_request(tmp_path: Path) -> None:
    """Envoy answers itself, and the caller gets an error although its body never ends. No health check has noticed."""
    async with AsyncExitStack() as exits:
        workers = AsyncExitStack()
        addresses = await workers.enter_async_context(simulated(1))
        health = {"interval_s": 3600, "timeout_s": 20, "metrics_interval_s": 3600}
        started = picker(tmp_path, addresses, model=SESSION, session_header_decides=True, health=health)
        one = await exits.enter_async_context(started)
        there = await exits.enter_async_context(before([Pool(one.address, addresses)], [one], addresses))
        await workers.aclose()
        async with asyncio.timeout(PATIENCE_S), half_sent(there) as (reader, _):
            status = await reader.readline()

    assert b"503" == status.split()[1]


async def test_keys_limits_and_usage_are_those_of_other_requests(tmp_path: Path) -> None:
    """Bodies of several parts get the members that the gateway adds at their end.

    A worker may see the beginning of a request that is over its limit, and never the end of its body.
    """
    store = {"url": f"sqlite:///{tmp_path}/usage.db"}
    how: Any = {"model": SESSION, "session_header_decides": True, "options": LONG, "store": store, **GATEWAY}
    async with rig(tmp_path, 2, **how) as there:
        key = await there.picker.admin.key()
        limited = await there.picker.admin.key(key.team, limits={"requests_per_minute": 1})
        seen = []
        async with there.openai(key.secret) as client:
            for text in ("hi", "word " * 400_000):
                asked: Any = {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": 3}
                whole = await client.chat.completions.create(**asked, extra_headers=HEADERS)
                assert whole.usage is not None
                seen += [(whole.usage.prompt_tokens, whole.usage.completion_tokens)] * 2
                bare = await client.chat.completions.create(**asked, stream=True, extra_headers=HEADERS)
                assert all(chunk.usage is None for chunk in [chunk async for chunk in bare])
        asked["messages"] = [{"role": "user", "content": "hi"}]
        async with there.openai(limited.secret) as client:
            last = await client.chat.completions.create(**asked, extra_headers=HEADERS)
            assert last.usage is not None
            seen.append((last.usage.prompt_tokens, last.usage.completion_tokens))
            with pytest.raises(openai.RateLimitError):
                await client.chat.completions.create(**asked, extra_headers=HEADERS)
        async with there.openai("sk-unknown") as client:
            with pytest.raises(openai.AuthenticationError):
                await client.chat.completions.create(**asked, extra_headers=HEADERS)
        records = await there.picker.admin.records(key.team, len(seen))
        served = await there.served()

    assert sorted(seen) == sorted((each["prompt_tokens"], each["completion_tokens"]) for each in records)
    assert [0, 5] == sorted(served.values())
