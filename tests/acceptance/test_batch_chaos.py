"""A batch of 5,000 lines on three gateways and a real Redis, of which one is killed every ten seconds.

Run it with `make batch-chaos`. Every line is in the output once, and the ledger has the run in the output: its sums are
the sums of the output in requests, tokens and costs. Runs of killed gateways are in no sum.
"""

import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from simulator.server import serving
from tests.e2e.batching import a_line
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.governed import OWNER, bearer
from tests.e2e.stack import HELD_KEY, quick
from tests.storage import RedisServer

LINES = int(os.environ.get("BATCH_CHAOS_LINES", "5000"))
KILL_EVERY_S = 10.0
GATEWAYS = 3
PRICE = {"input_usd": 2.0, "cached_input_usd": 1.0, "output_usd": 8.0}
"""Dollars per million tokens."""
LIMITS = {"tokens_per_minute": 1_000_000_000, "usd_per_month": 1_000_000}
WORKERS = 4
PATIENCE_S = 1200.0
GONE = (openai.APIConnectionError, openai.InternalServerError, httpx.HTTPError)


def settings(folder: Path, store: str, workers: list[str]) -> dict[str, Any]:
    return {
        "server": {"port": 0},
        "models": [{"name": "tiny", "workers": [{"url": url} for url in workers], "price": PRICE}],
        # With limits, the store holds reservations, which it settles if their gateway was killed.
        "teams": [{"name": "blue", "keys": [{"id": "ci", "secret": HELD_KEY}], "limits": LIMITS}],
        "admin": {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]},
        "store": {"url": store},
        "files": {"folder": str(folder / "files")},
        "batches": {"lease_s": 3},
    }


class Gateways:
    """Three gateways. One that was killed starts again at once."""

    def __init__(self, folder: Path, wanted: dict[str, Any], exits: AsyncExitStack) -> None:
        self._folder = folder
        self._wanted = wanted
        self._exits = exits
        self._serial = itertools.count()
        self.running: list[GatewayProcess] = []

    async def start(self) -> None:
        name = f"gateway-{next(self._serial)}"
        process = gateway_process(self._folder, self._wanted, name=name, initializes=not self.running)
        self.running.append(await self._exits.enter_async_context(process))

    async def kill(self, rng: random.Random) -> None:
        await self.running.pop(rng.randrange(len(self.running))).kill()
        await self.start()

    async def status(self, batch_id: str) -> Any:
        """The batch as any gateway shows it, or None while none can."""
        for gateway in list(self.running):
            try:
                async with client(gateway) as api:
                    return await api.batches.retrieve(batch_id)
            except GONE:
                continue
        return None


def client(gateway: GatewayProcess) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=HELD_KEY, max_retries=2)


async def killing(gateways: Gateways, redis: RedisServer, kills: Counter[str]) -> None:
    """Kill the store every fourth time, and a gateway otherwise."""
    rng = random.Random(1)
    for turn in itertools.count(1):
        await asyncio.sleep(KILL_EVERY_S)
        if turn % 4:
            await gateways.kill(rng)
        else:
            await asyncio.to_thread(redis.kill)
            await asyncio.to_thread(redis.start)
        kills["gateway" if turn % 4 else "redis"] += 1


async def ledger(gateway: GatewayProcess) -> list[dict[str, Any]]:
    """Return all records of the ledger."""
    response = await gateway.http.get("/admin/v1/usage/export?format=jsonl", headers=bearer(OWNER), timeout=60)
    return [json.loads(line) for line in response.text.splitlines()]


async def sums(gateway: GatewayProcess) -> dict[str, Any]:
    """Return the sums of the ledger."""
    response = await gateway.http.get("/admin/v1/usage", headers=bearer(OWNER), timeout=60)
    return dict(response.json()["total"])


def use_of(answered: list[dict[str, Any]]) -> dict[str, tuple[int, int, float]]:
    """Return the tokens of the prompt and of the answer, and their cost, of each line in the output, by request id."""
    found: dict[str, tuple[int, int, float]] = {}
    for each in answered:
        usage = each["response"]["body"]["usage"]
        prompt, output = usage["prompt_tokens"], usage["completion_tokens"]
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        price = PRICE["input_usd"] * (prompt - cached) + PRICE["cached_input_usd"] * cached
        cost_usd = (price + PRICE["output_usd"] * output) / 1e6
        found[each["response"]["request_id"]] = (prompt, output, round(cost_usd, 9))
    return found


@pytest.mark.redis
async def test_every_line_is_in_the_output_once(tmp_path: Path, durable_redis_server: RedisServer) -> None:
    redis = durable_redis_server
    kills: Counter[str] = Counter()
    async with AsyncExitStack() as exits:
        urls = [await exits.enter_async_context(serving(quick(speed=1))) for _ in range(WORKERS)]
        gateways = Gateways(tmp_path, settings(tmp_path, redis.url, urls), exits)
        for _ in range(GATEWAYS):
            await gateways.start()
        async with client(gateways.running[0]) as api:
            lines = [a_line(str(n), f"{n % 50} hello " * 40 + str(n), max_tokens=200) for n in range(LINES)]
            content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            file = await api.files.create(file=("lines.jsonl", content), purpose="batch")
            batch = await api.batches.create(
                input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
            )
        began = time.monotonic()
        chaos = asyncio.ensure_future(killing(gateways, redis, kills))
        async with asyncio.timeout(PATIENCE_S):
            while (found := await gateways.status(batch.id)) is None or found.status != "completed":
                assert not chaos.done()
                await asyncio.sleep(1)
        took_s = time.monotonic() - began
        chaos.cancel()
        await asyncio.wait([chaos])
        if len(gateways.running) < GATEWAYS:
            await gateways.start()
        async with client(gateways.running[0]) as api:
            content = (await api.files.content(found.output_file_id)).content
        answered = [json.loads(line) for line in content.splitlines()]
        records = await ledger(gateways.running[0])
        summed = await sums(gateways.running[0])

        sys.stdout.write(
            f"\n{LINES} lines in {took_s:.0f} s, kills: {dict(kills)}; {len(answered)} outputs; "
            f"ledger: {summed['requests']} requests, {summed['prompt_tokens']} + {summed['completion_tokens']} tokens, "
            f"{summed['cost_usd']:.6f} USD\n"
        )
        assert [str(n) for n in range(LINES)] == [each["custom_id"] for each in answered]
        assert {200} == {each["response"]["status_code"] for each in answered}
        assert (LINES, 0) == (found.request_counts.completed, found.request_counts.failed)
        assert sum(each["response"]["body"]["usage"]["total_tokens"] for each in answered) == found.usage.total_tokens
        use = use_of(answered)
        assert use == {
            each["request_id"]: (each["prompt_tokens"], each["completion_tokens"], round(each["cost_usd"], 9))
            for each in records
        }
        assert (LINES, LINES, LINES) == (len(records), len(use), summed["requests"])
        assert sum(prompt for prompt, _, _ in use.values()) == summed["prompt_tokens"]
        assert sum(output for _, output, _ in use.values()) == summed["completion_tokens"]
        assert sum(round(1e9 * cost_usd) for _, _, cost_usd in use.values()) == round(1e9 * summed["cost_usd"])
