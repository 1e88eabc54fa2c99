"""Gateways that share a batch are killed: no line is lost, and none is in the output twice."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from simulator.server import serving
from tests.e2e.batching import a_line
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.stack import HELD_KEY, quick
from tests.storage import RedisServer

LINES = 300


def settings(folder: Path, store: str, worker: str) -> dict[str, Any]:
    return {
        "server": {"port": 0},
        "models": [{"name": "tiny", "workers": [{"url": worker}]}],
        "teams": [{"name": "blue", "keys": [{"id": "ci", "secret": HELD_KEY}]}],
        "store": {"url": store},
        "files": {"folder": str(folder / "files")},
        "batches": {"lease_s": 2},
    }


def client(gateway: GatewayProcess) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=HELD_KEY)


async def begun(openai: AsyncOpenAI) -> str:
    """The id of a batch of which some lines are finished."""
    lines = [a_line(str(n), f"{n} hello", max_tokens=40) for n in range(LINES)]
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    file = await openai.files.create(file=("lines.jsonl", content), purpose="batch")
    batch = await openai.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    await finished(openai, batch.id, 10)
    return batch.id


async def finished(openai: AsyncOpenAI, batch_id: str, count: int) -> None:
    """Wait until at least *count* lines are finished."""
    async with asyncio.timeout(120):
        while True:
            counts = (await openai.batches.retrieve(batch_id)).request_counts
            if counts is not None and counts.completed >= count:
                return
            await asyncio.sleep(0.05)


async def outputs(openai: AsyncOpenAI, batch_id: str) -> list[str]:
    async with asyncio.timeout(120):
        while (batch := await openai.batches.retrieve(batch_id)).status != "completed":
            await asyncio.sleep(0.1)
    assert batch.output_file_id is not None
    content = (await openai.files.content(batch.output_file_id)).content
    return [json.loads(line)["custom_id"] for line in content.splitlines()]


async def test_a_gateway_that_was_killed_goes_on_after_its_restart(tmp_path: Path) -> None:
    async with serving(quick(speed=1)) as worker:
        wanted = settings(tmp_path, f"sqlite:///{tmp_path / 'db'}", worker)
        async with gateway_process(tmp_path, wanted) as gateway, client(gateway) as openai:
            batch_id = await begun(openai)
            await gateway.kill()
        async with gateway_process(tmp_path, wanted) as gateway, client(gateway) as openai:
            assert [str(n) for n in range(LINES)] == await outputs(openai, batch_id)


@pytest.mark.redis
async def test_other_gateways_run_the_lines_of_gateways_that_are_killed(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    async with AsyncExitStack() as exits:
        worker = await exits.enter_async_context(serving(quick(speed=1)))
        wanted = settings(tmp_path, redis_server.url, worker)
        started = [
            await exits.enter_async_context(gateway_process(tmp_path, wanted, name=f"gateway-{n}")) for n in range(3)
        ]
        last = await exits.enter_async_context(client(started[2]))
        batch_id = await begun(last)
        for n, gateway in enumerate(started[:2]):
            await gateway.kill()
            await finished(last, batch_id, 60 * (n + 1))

        assert [str(n) for n in range(LINES)] == await outputs(last, batch_id)
