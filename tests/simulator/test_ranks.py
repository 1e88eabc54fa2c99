"""Data-parallel ranks of a simulated worker, over real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving

TEXT = "A prompt that fills some blocks of a small cache, and is cached where it was computed. " * 2


@asynccontextmanager
async def ranked(ranks: int = 2, **changes: Any) -> AsyncIterator[httpx.AsyncClient]:
    options = SimulatorOptions(**{"port": 0, "speed": 0, "blocks": 128, "ranks": ranks, **changes})
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        yield client


async def cached(client: httpx.AsyncClient, **headers: str) -> int:
    body = {"model": "tiny", "messages": [{"role": "user", "content": TEXT}], "max_tokens": 1}
    reply = await client.post("/v1/chat/completions", json=body, headers=headers)
    assert 200 == reply.status_code, reply.text
    found: int = reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return found


async def test_each_rank_has_a_cache_of_its_own() -> None:
    async with ranked() as client:
        hits = [await cached(client, **{"x-data-parallel-rank": rank}) > 0 for rank in ("0", "0", "1", "1", "x")]

    assert [False, True, False, True, True] == hits


@pytest.mark.parametrize("streams", [False, True])
async def test_a_rank_that_is_not_there_is_the_callers_fault(*, streams: bool) -> None:
    async with ranked() as client:
        body = {"model": "tiny", "prompt": "x", "stream": streams}
        reply = await client.post("/v1/completions", json=body, headers={"x-data-parallel-rank": "2"})

    assert 400 == reply.status_code
    assert "data_parallel_rank 2 is out of range [0, 2)." == reply.json()["error"]["message"]


async def test_gauges_stand_under_the_rank_that_they_are_of() -> None:
    async with ranked(dialect="vllm") as client:
        vllm = (await client.get("/metrics")).text
    async with ranked(dialect="sglang") as client:
        sglang = (await client.get("/metrics")).text
        loads = (await client.get("/v1/loads")).json()
        info = (await client.get("/server_info")).json()

    assert 1 == vllm.count("# HELP vllm:num_requests_running ")
    assert {0, 1} == {rank for rank in range(3) if f'vllm:num_requests_running{{engine="{rank}"' in vllm}
    assert {0, 1} == {rank for rank in range(3) if f'sglang:num_running_reqs{{dp_rank="{rank}"' in sglang}
    assert (2, [0, 1], 2) == (loads["dp_rank_count"], [load["dp_rank"] for load in loads["loads"]], info["dp_size"])


async def test_each_rank_publishes_at_ports_of_its_own() -> None:
    """Reported by rank, and broken by rank."""
    async with ranked(kv_events=EventOptions(replay_port=0)) as client:
        reported = (await client.get("/kv_event_sources")).json()
        await cached(client, **{"x-data-parallel-rank": "1"})
        first, second = [
            (await client.get(path)).json() for path in ("/control/kv_events", "/control/ranks/1/kv_events")
        ]

    assert ["0", "1"] == list(reported)
    assert [first["endpoint"], second["endpoint"]] == [source["endpoint"] for source in reported.values()]
    assert 0 == first["next_sequence"] < second["next_sequence"]


def test_ports_count_up_from_those_that_were_chosen() -> None:
    """Those that are left to the system stay so."""
    chosen, free = EventOptions(port=5557, replay_port=5600), EventOptions(port=0)

    assert (EventOptions(port=5559, replay_port=5602), free) == (chosen.of_rank(2), free.of_rank(2))


async def test_with_dynamo_they_are_the_workers_behind_the_frontend() -> None:
    """Pinned by their ids; a pin to no one is refused in so many words."""
    async with ranked(dialect="dynamo") as client:
        listed = [str(each["instance_id"]) for each in (await client.get("/health")).json()["instances"]]
        hits = [await cached(client, **{"x-dynamo-worker-instance-id": each}) > 0 for each in [*listed, *listed]]
        body = {"model": "tiny", "prompt": "x"}
        refused = await client.post("/v1/completions", json=body, headers={"x-worker-instance-id": "7"})
        busy = (await client.get("/metrics")).text

    assert [False, False, True, True] == hits
    assert (400, "Invalid request") == (refused.status_code, refused.json()["message"])
    assert all(f'worker_id="{each}"' in busy for each in listed)


async def test_what_breaks_the_worker_breaks_all_of_them() -> None:
    """Caches are emptied together, and sleep together."""
    async with ranked() as client:
        for rank in ("0", "1"):
            await cached(client, **{"x-data-parallel-rank": rank})
        await client.post("/control/reset")
        hits = [await cached(client, **{"x-data-parallel-rank": rank}) for rank in ("0", "1")]
        slow = await client.post("/control/faults", json={"mode": "slow", "factor": 2})

    assert ([0, 0], 200) == (hits, slow.status_code)
