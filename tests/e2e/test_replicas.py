"""Two gateways in processes of their own, one Redis, simulated workers: what each gives to workers counts in both."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.e2e.gateway_process import GatewayProcess, replicas
from tests.e2e.governed import bearer, chat
from tests.e2e.stack import quick
from tests.storage import RedisServer

pytestmark = pytest.mark.redis

KEY = "replicas-key-0123456789abcdef"
PROMPTS = 60


@asynccontextmanager
async def two_gateways(
    redis: RedisServer, folder: Path, options: SimulatorOptions, *, workers: int = 4
) -> AsyncIterator[tuple[GatewayProcess, GatewayProcess]]:
    async with AsyncExitStack() as exits:
        urls = [await exits.enter_async_context(serving(options)) for _ in range(workers)]
        settings: dict[str, Any] = {
            "server": {"port": 0},
            "models": [
                {"name": "tiny", "workers": [{"url": url, "id": f"w{place}"} for place, url in enumerate(urls)]}
            ],
            "teams": [{"name": "blue", "keys": [{"id": "ci", "secret": KEY}]}],
            "store": {"url": redis.url, "replicas": 2},
            # A worker that shares the loop with everybody else may be late, and is not down for that.
            "health": {"interval_s": 0.2, "timeout_s": 10},
        }
        first, second = await exits.enter_async_context(replicas(folder, settings))
        for gateway in (first, second):
            for place in range(workers):
                await until(gateway, f'warmgate_worker_up{{model="tiny",worker="w{place}"}}', 1.0)
            await until(gateway, "warmgate_replicas", 2.0)
        yield first, second


async def until(gateway: GatewayProcess, metric: str, value: float, *, within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while await gateway.metric(metric) != value:
            await asyncio.sleep(0.02)


async def worker_of(gateway: GatewayProcess, text: str) -> str:
    response = await gateway.http.post("/v1/chat/completions", json=chat(text, stream=True), headers=bearer(KEY))
    assert response.status_code == 200, response.text
    return response.headers["x-warmgate-worker"]


def a_new_text(rng: random.Random) -> str:
    return " ".join(f"{rng.getrandbits(32):08x}" for _ in range(250))


async def test_two_gateways_send_the_same_new_prompt_to_the_same_worker(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """Asked at the same moment, where chance would agree on a quarter of the prompts.

    On a busy machine one of them may hear of the other one's request before it decides, and avoid its worker. And
    what one of them was sent is a hit in the other.
    """
    rng = random.Random(8)
    async with two_gateways(redis_server, tmp_path, quick()) as (first, second):
        chosen = []
        for _ in range(PROMPTS):
            text = a_new_text(rng)
            chosen.append(await asyncio.gather(worker_of(first, text), worker_of(second, text)))
            for gateway in (first, second):  # has heard that the other one's answer is over
                await until(gateway, "warmgate_replica_bookings", 0.0)
        texts = [a_new_text(rng) for _ in range(10)]
        sent = [await worker_of(first, text) for text in texts]
        again = [await worker_of(second, text) for text in texts]

    agreed = sum(one == other for one, other in chosen)
    by_worker = Counter(one for one, _ in chosen)

    assert agreed > 0.75 * PROMPTS, f"{agreed} of {PROMPTS}"
    assert 4 == len(by_worker), "and prompts go to all workers"
    assert sent == again


async def test_nothing_of_a_killed_gateway_stays_on_workers(redis_server: RedisServer, tmp_path: Path) -> None:
    """Its streams are load for the other one until 3 s after its last sign of life."""
    slow = SimulatorOptions(port=0, tpot_ms=100)
    async with two_gateways(redis_server, tmp_path, slow, workers=2) as (first, second), asyncio.TaskGroup() as tasks:
        streams = [tasks.create_task(cut_off(first, f"Tell me story {number}.")) for number in range(6)]
        await until(second, "warmgate_replica_bookings", 6.0)
        busy = [
            await second.metric(f'warmgate_worker_in_flight{{model="tiny",worker="{name}"}}') for name in ("w0", "w1")
        ]
        await first.kill()
        await until(second, "warmgate_replica_bookings", 0.0)
        idle = [
            await second.metric(f'warmgate_worker_in_flight{{model="tiny",worker="{name}"}}') for name in ("w0", "w1")
        ]
        alone = await second.metric("warmgate_replicas")

    assert (6.0, 0.0, 1.0) == (sum(busy), sum(idle), alone)
    assert [True] * 6 == [stream.result() for stream in streams]


async def cut_off(gateway: GatewayProcess, text: str) -> bool:
    """Whether a long answer was cut off."""
    body = chat(text, stream=True, max_tokens=1000)
    try:
        async with gateway.http.stream("POST", "/v1/chat/completions", json=body, headers=bearer(KEY)) as response:
            await response.aread()
    except httpx.HTTPError:
        return True
    return False
