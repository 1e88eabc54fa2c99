"""Replicas of the picker share keys and limits through Redis."""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from benchmarks.picker.chaos_rig import two_pickers
from tests.e2e.governed import GATEWAY, bearer, chat
from tests.picker.envoy import envoy
from tests.picker.rig import PATIENCE_S, picker, simulated
from tests.storage import RedisServer

REQUESTS = 12
LIMIT_USD = 100.0
"""Limit that some of the requests exceed, each of which takes some twenty tokens."""
PRICE = dict.fromkeys(("input_usd", "cached_input_usd", "output_usd"), 1e6)
"""US dollars per million tokens, so that a token costs one dollar."""


async def initialize(folder: Path, settings: Mapping[str, Any]) -> None:
    """Initialize the store in *settings*, as operators do once."""
    config = folder / "store.yaml"
    config.write_text(
        yaml.safe_dump({"models": [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}], **settings})
    )
    command = [sys.executable, "-m", "gateway", "store", "init", "--config", str(config)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    assert 0 == process.returncode, said.decode()


@pytest.mark.redis
async def test_a_limit_is_kept_by_all_replicas_together(redis_server: RedisServer, tmp_path: Path) -> None:
    """Envoy asks the replicas in turn, and both learn of a key that one of them has created."""
    settings = {**GATEWAY, "store": {"url": redis_server.url, "replicas": 2}}
    await initialize(tmp_path, settings)
    async with AsyncExitStack() as exits:
        workers = await exits.enter_async_context(simulated(2))
        one, other = [
            await exits.enter_async_context(picker(tmp_path, workers, name=name, model={"price": PRICE}, **settings))
            for name in ("one", "other")
        ]
        running = await exits.enter_async_context(envoy(two_pickers([one.address, other.address], workers)))
        key = await one.admin.limited(usd_per_month=LIMIT_USD)
        async with asyncio.timeout(PATIENCE_S):
            while (await other.http.get("/v1/models", headers=key.headers)).status_code != 200:
                await asyncio.sleep(0.05)
        url = f"http://{running.address}"
        client = await exits.enter_async_context(httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, verify=False))
        answers = [
            await client.post("/v1/chat/completions", json=chat(), headers=bearer(key.secret)) for _ in range(REQUESTS)
        ]
        handled = [await requests_at(each.http) for each in (one, other)]

    served = [each.json()["usage"]["total_tokens"] for each in answers if each.status_code == 200]
    assert {200, 429} == {each.status_code for each in answers}
    assert 0 < sum(served) <= LIMIT_USD
    assert [True, True] == [count > 0 for count in handled]


async def requests_at(http: httpx.AsyncClient) -> float:
    """Return the number of requests that the replica has counted."""
    lines = (await http.get("/metrics")).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("warmgate_requests_total{"))
