"""Webhooks about batches reach their receiver although gateways are killed, and the client of OpenAI verifies them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from simulator.server import serving
from tests.alert_receiver import SECRET, AlertReceiver, alert_receiver
from tests.e2e.batching import ENDED, a_line
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.stack import HELD_KEY, quick
from tests.storage import RedisServer

VARIABLES = {"HOOK_SECRET": SECRET}


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'db'}"
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url


def settings(folder: Path, store: str, worker: str, jobs: AlertReceiver, others: AlertReceiver) -> dict[str, Any]:
    """The receiver ``others`` gets the events of another team."""
    return {
        "server": {"port": 0},
        "models": [{"name": "tiny", "workers": [{"url": worker}]}],
        "teams": [{"name": "blue", "keys": [{"id": "ci", "secret": HELD_KEY}]}],
        "store": {"url": store},
        "files": {"folder": str(folder / "files")},
        "batches": {
            "webhooks": [
                {"name": "jobs", "url": jobs.url, "secret_env": "HOOK_SECRET"},
                {"name": "others", "url": others.url, "secret_env": "HOOK_SECRET", "teams": ["red"]},
            ]
        },
    }


def client(gateway: GatewayProcess) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=HELD_KEY, webhook_secret=SECRET)


async def ran(openai: AsyncOpenAI, *lines: Any) -> str:
    """The id of a batch that has ended."""
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    file = await openai.files.create(file=("lines.jsonl", content), purpose="batch")
    made = await openai.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    async with asyncio.timeout(60):
        while (await openai.batches.retrieve(made.id)).status not in ENDED:
            await asyncio.sleep(0.05)
    return made.id


def received(openai: AsyncOpenAI, receiver: AlertReceiver) -> list[tuple[str, str]]:
    """Types and batches of the events, verified, in the order in which they arrived first."""
    events: list[Any] = [openai.webhooks.unwrap(body, headers) for headers, body in receiver.got]
    return list(dict.fromkeys((each.type, each.data.id) for each in events))


async def test_an_event_that_was_not_delivered_is_delivered_after_a_kill(tmp_path: Path, store: str) -> None:
    """The receiver is down at first, which delays no batch."""
    async with serving(quick()) as worker, alert_receiver(503) as jobs, alert_receiver() as others:
        wanted = settings(tmp_path, store, worker, jobs, others)
        async with gateway_process(tmp_path, wanted, variables=VARIABLES) as gateway, client(gateway) as openai:
            first = await ran(openai, a_line("1"))
            second = await ran(openai, a_line("1", stream=True))
            await jobs.attempted()
            await gateway.kill()
        jobs.status = 200
        async with (
            gateway_process(tmp_path, wanted, variables=VARIABLES, name="last") as gateway,
            client(gateway) as openai,
        ):
            third = await ran(openai, a_line("1"))
            await jobs.accepted(3)
            found, said = received(openai, jobs), gateway.said()

    assert [("batch.completed", first), ("batch.failed", second), ("batch.completed", third)] == found
    assert 0 == others.attempts
    assert SECRET.encode() not in said
    assert jobs.url.encode() not in said
