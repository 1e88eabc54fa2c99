"""Data-parallel ranks behind one address, each a worker of its own: over real sockets, as operators see it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving
from simulator.tokenizer_folder import write_tokenizer
from tests.e2e.stack import Stack, gateway, quick

TEXT = "The same beginning is cached where it was seen before, and nowhere else. " * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The simulated model's own tokenizer."""
    path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(path)
    return path


@asynccontextmanager
async def ranked(
    ranks: int, folder: Path | None = None, *, reported: int | None = None, options: SimulatorOptions | None = None
) -> AsyncIterator[Stack]:
    """A gateway before one engine of so many *ranks*; the settings name *reported*. With *folder* it is kv_aware."""
    options = options or quick(ranks=ranks, kv_events=EventOptions(replay_port=0))
    model: dict[str, Any] = {"strategy": "round_robin"}
    if folder is not None:
        tokenizer = {"path": str(folder), "budget_s": 5}
        model = {"strategy": "kv_aware", "strategy_header": True, "tokenizer": tokenizer}
    async with serving(options) as worker:
        entry = {"url": worker, "id": "gpu", "ranks": ranks if reported is None else reported}
        async with gateway([entry], model=model) as there:
            yield there


async def ask(there: Stack, text: str, **headers: str) -> tuple[str, int, int]:
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": 8}
    reply = await there.http.post("/v1/chat/completions", json=body, headers=headers)
    assert 200 == reply.status_code, reply.text
    cached = reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return reply.headers["x-warmgate-worker"], int(reply.headers["x-warmgate-hit-tokens"]), cached


async def until(there: Stack, metric: str, total: float) -> None:
    """Until the samples of *metric* come to *total*."""
    async with asyncio.timeout(60):
        while sum((await there.metric(metric)).values()) < total:
            await asyncio.sleep(0.02)


async def heard(there: Stack, *names: str) -> None:
    """Until all that the ranks, which are called so in their order, have published was taken in."""
    (worker,) = set(there.workers)
    async with asyncio.timeout(60):
        for rank, name in enumerate(names):
            path = f"/control/ranks/{rank}/kv_events" if rank else "/control/kv_events"
            last = (await there.http.get(worker + path)).json()["next_sequence"] - 1
            while last >= 0 and (await there.metric("warmgate_kv_stream_sequence"))[f'{{worker="{name}"}}'] < last:
                await asyncio.sleep(0.02)


def rank_of(request: dict[str, Any]) -> list[str]:
    return [value for name, value in request["headers"] if name == "x-data-parallel-rank"]


async def test_each_rank_is_a_worker_and_is_asked_by_its_header() -> None:
    """In turn, and what a caller says of ranks does not pass."""
    async with ranked(3) as there:
        answered = [(await ask(there, f"{i}", **{"x-data-parallel-rank": "9"}))[0] for i in range(6)]
        (worker,) = there.workers

        assert Counter({"gpu#0": 2, "gpu#1": 2, "gpu#2": 2}) == Counter(answered)
        assert [[name[-1]] for name in answered] == [rank_of(request) for request in await there.served(worker)]
        assert {'{model="tiny",worker="gpu#0"}', '{model="tiny",worker="gpu#1"}', '{model="tiny",worker="gpu#2"}'} == (
            await there.metric("warmgate_worker_up")
        ).keys()


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
async def test_an_engine_is_asked_how_many_ranks_it_has(dialect: Literal["vllm", "sglang"]) -> None:
    """`ranks: 0`; before the first request."""
    async with ranked(2, reported=0, options=quick(ranks=2, dialect=dialect)) as there:
        answered = {(await ask(there, f"{i}"))[0] for i in range(4)}

    assert {"gpu#0", "gpu#1"} == answered


async def test_one_rank_is_the_worker_itself() -> None:
    async with ranked(1, reported=0) as there:
        (worker,) = there.workers

        assert "gpu" == (await ask(there, "x"))[0]
        assert [[]] == [rank_of(request) for request in await there.served(worker)]


async def test_ranks_have_caches_and_streams_of_their_own(folder: Path) -> None:
    """What one rank computed is predicted of that rank, to the token, and of no other."""
    async with ranked(3, folder) as there:
        await until(there, "warmgate_worker_kv_events_live", 3)
        by_turns = {"x-warmgate-strategy": "round_robin"}
        first = [await ask(there, f"Conversation {i}. {TEXT}", **by_turns) for i in range(6)]
        await heard(there, "gpu#0", "gpu#1", "gpu#2")
        second = [await ask(there, f"Conversation {i}. {TEXT}") for i in range(6)]

        assert {"gpu#0", "gpu#1", "gpu#2"} == {worker for worker, _, _ in first}
        assert [worker for worker, _, _ in first] == [worker for worker, _, _ in second]
        assert all(predicted == cached > 100 for _, predicted, cached in second), second


async def test_gauges_of_engines_are_those_of_each_rank() -> None:
    """vLLM's label `engine` says whose."""
    async with ranked(2) as there:
        await until(there, "warmgate_worker_up", 2)
        async with asyncio.timeout(60):
            while len(usage := await there.metric("warmgate_worker_engine_kv_usage_ratio")) < 2:
                await asyncio.sleep(0.02)

    assert {'{model="tiny",worker="gpu#0"}', '{model="tiny",worker="gpu#1"}'} == usage.keys()


async def test_a_dead_address_is_all_of_its_ranks() -> None:
    """A request that finds no one at the address of one rank does not try the next."""
    async with ranked(4) as there:
        (worker,) = there.workers
        await there.fault(worker, "engine_dead")
        async with asyncio.timeout(60):
            while sum((await there.metric("warmgate_worker_up")).values()):
                await asyncio.sleep(0.02)
        await there.fault(worker, "none")
        await until(there, "warmgate_worker_up", 4)

        assert "gpu#" == (await ask(there, "again"))[0][:4]


async def test_draining_the_address_drains_every_rank() -> None:
    """One rank drains by its own name."""
    token = {"authorization": "Bearer boss"}
    async with serving(quick(ranks=2)) as worker:
        entry = {"url": worker, "id": "gpu", "ranks": 2}
        async with gateway([entry], admin={"keys": [{"role": "operator", "secret": "boss"}]}) as there:
            one = await there.http.post("/admin/v1/workers/drain", json={"worker": "gpu#1"}, headers=token)
            answered = {(await ask(there, f"{i}"))[0] for i in range(4)}
            both = await there.http.post("/admin/v1/workers/drain", json={"worker": "gpu"}, headers=token)

    assert (200, ["gpu#1"]) == (one.status_code, [card["worker"] for card in one.json()["workers"]])
    assert {"gpu#0"} == answered
    assert ["gpu#0", "gpu#1"] == [card["worker"] for card in both.json()["workers"]]


# ---- behind a Dynamo frontend


async def test_workers_behind_a_frontend_are_those_that_it_lists() -> None:
    """Each is asked by its instance id."""
    async with serving(quick(dialect="dynamo", ranks=2)) as frontend:
        entry = {"url": frontend, "id": "dynamo", "dynamo": {}}
        async with gateway([entry], model={"strategy": "round_robin"}) as there:
            answered = [(await ask(there, f"{i}"))[0] for i in range(4)]
            pinned = [
                [value for name, value in request["headers"] if name == "x-dynamo-worker-instance-id"]
                for request in await there.served(frontend)
            ]

    assert 2 == len(set(answered))
    assert [[name.removeprefix("dynamo#")] for name in answered] == pinned


async def test_what_their_engines_tell_is_read_beside_the_frontend(folder: Path) -> None:
    """Predicted to the token; an instance that is not behind it any more costs no one an error."""
    options = quick(dialect="dynamo", ranks=2, kv_events=EventOptions(replay_port=0))
    async with serving(options) as frontend:
        async with httpx.AsyncClient(base_url=frontend, timeout=60, verify=False) as client:
            listed = [str(each["instance_id"]) for each in (await client.get("/health")).json()["instances"]]
            reported = [(await client.get(f"/control/{path}")).json() for path in ("kv_events", "ranks/1/kv_events")]
        instances: list[dict[str, Any]] = [
            {"id": number, "kv_events": {name: where[name] for name in ("endpoint", "replay_endpoint")}}
            for number, where in zip(listed, reported, strict=True)
        ]
        model = {"strategy": "kv_aware", "tokenizer": {"path": str(folder), "budget_s": 5}}
        entry = {"url": frontend, "id": "dynamo", "dynamo": {"instances": [*instances, {"id": 7}]}}
        async with gateway([entry], model=model) as there:
            await until(there, "warmgate_worker_kv_events_live", 2)
            first = [await ask(there, f"Conversation {i}. {TEXT}") for i in range(6)]
            await heard(there, *(f"dynamo#{number}" for number in listed))
            second = [await ask(there, f"Conversation {i}. {TEXT}") for i in range(6)]

    assert {f"dynamo#{number}" for number in listed} >= {worker for worker, _, _ in first}
    assert [worker for worker, _, _ in first] == [worker for worker, _, _ in second]
    assert all(predicted == cached > 100 for _, predicted, cached in second), second
