import asyncio
from typing import Any

import httpx
import pytest

from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.simulator.listener import TIMEOUT_S, replayed
from tests.simulator.test_event_publisher import complete, publishing

pytestmark = pytest.mark.e2e

EVENTS = "/control/kv_events"


async def control(worker: httpx.AsyncClient, path: str = "", **body: Any) -> dict[str, Any]:
    reply = await worker.post(f"{EVENTS}{path}", json=body)
    assert 200 == reply.status_code, reply.text
    state: dict[str, Any] = reply.json()
    return state


async def replayable(worker: httpx.AsyncClient) -> list[int]:
    source = (await worker.get("/kv_event_sources")).json()["0"]
    frames = await replayed(source["replay_endpoint"], 0)
    return [int.from_bytes(frame[2], "big") for frame in frames[:-1]]


async def store(worker: httpx.AsyncClient, *tokens: int) -> None:
    """One block for each token, in one batch each."""
    for token in tokens:
        await complete(worker, [token] * 17)


@pytest.mark.parametrize("can_be_replayed", [True, False])
async def test_batches_can_be_lost(can_be_replayed: bool) -> None:
    """The numbers go on; what got lost can be replayed or not, by choice."""
    async with publishing(EventOptions(replay_port=0)) as (worker, listener):
        before = (await worker.get(EVENTS)).json()["next_sequence"]
        state = await control(worker, lose=2, lost_can_be_replayed=can_be_replayed)
        await store(worker, 1, 2, 3)
        message = await listener.next()
        kept = [number for number in await replayable(worker) if number >= before]

    assert 2 == state["to_lose"]
    assert before + 2 == message.sequence
    assert [3] * 16 == message.events[0]["token_ids"]
    assert kept == [before, before + 1, before + 2] if can_be_replayed else kept == [before + 2]


async def test_publishing_can_pause() -> None:
    """What was held back comes when it goes on, in order and without a gap."""
    async with publishing(EventOptions(replay_port=0)) as (worker, listener):
        before = await control(worker, paused=True)
        await store(worker, 1, 2)
        held = (await worker.get(EVENTS)).json()
        after = await control(worker, paused=False)
        messages = [await listener.next() for _ in range(2)]

    assert (True, before["next_sequence"], before["replayable"]) == (
        held["paused"],
        held["next_sequence"],
        held["replayable"],
    )
    assert (False, before["next_sequence"] + 2) == (after["paused"], after["next_sequence"])
    assert [1, 2] == [message.events[0]["token_ids"][0] for message in messages]
    assert [before["next_sequence"] + i for i in range(2)] == [message.sequence for message in messages]


async def test_what_can_be_replayed_can_be_forgotten() -> None:
    """The stream goes on as if nothing had happened."""
    async with publishing(EventOptions(replay_port=0)) as (worker, listener):
        await store(worker, 1)
        first = await listener.next()
        state = await control(worker, "/forget")
        assert [] == await replayable(worker)
        await store(worker, 2)

        assert (0, first.sequence + 1) == (state["replayable"], (await listener.next()).sequence)


@pytest.mark.parametrize("first_sequence", [0, 1])
async def test_a_new_life_is_not_reported(first_sequence: Any) -> None:
    """Numbers begin again, the cache is empty, and no event says so."""
    async with publishing(EventOptions(replay_port=0, first_sequence=first_sequence)) as (worker, listener):
        await store(worker, 1)
        await listener.next()
        state = await control(worker, "/restart")
        again = await complete(worker, [1] * 17)
        message = await listener.next()

        assert [first_sequence] == await replayable(worker)
    assert (first_sequence, 0) == (state["next_sequence"], state["replayable"])
    assert 0 == again["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert (first_sequence, ["BlockStored"]) == (message.sequence, [event["type"] for event in message.events])


async def test_a_new_life_may_hang_up() -> None:
    """The sockets are those of another process, at the same addresses; what ran has failed."""
    options = EventOptions(replay_port=0)
    async with publishing(options, speed=1, tpot_ms=100) as (worker, listener):
        running = asyncio.ensure_future(worker.post("/v1/completions", json={"prompt": "x", "max_tokens": 1000}))
        await until_running(worker)
        before = (await worker.get("/kv_event_sources")).json()
        await control(worker, "/restart", hang_up=True)

        assert 500 == (await running).status_code
        assert before == (await worker.get("/kv_event_sources")).json()
        await listener.hear(worker)  # ZMQ connects again by itself


async def until_running(worker: httpx.AsyncClient) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while 'vllm:num_requests_running{engine="0",model_name="tiny"} 1.0' not in (await worker.get("/metrics")).text:
            await asyncio.sleep(0.01)


async def test_what_was_held_back_is_gone_with_a_new_life() -> None:
    async with publishing(EventOptions(batch_s=0.2)) as (worker, listener):
        await control(worker, paused=True)
        await store(worker, 1)
        await control(worker, "/restart")
        await control(worker, paused=False)
        await store(worker, 2)
        message = await listener.next()

    assert (0, [2] * 16) == (message.sequence, message.events[0]["token_ids"])


async def test_a_wish_that_makes_no_sense_is_refused() -> None:
    """With what is wrong about it."""
    async with publishing() as (worker, _):
        replies = [await worker.post(EVENTS, json=body) for body in ({"lose": -1}, {"loose": 1}, {"paused": "yes"})]

    assert [400, 400, 400] == [reply.status_code for reply in replies]
    assert "loose" in replies[1].text


async def test_a_worker_without_events_has_none_to_control() -> None:
    """The routes are not there, and no source is listed."""
    async with (
        serving(SimulatorOptions(port=0)) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker,
    ):
        assert 404 == (await worker.get(EVENTS)).status_code
        assert {} == (await worker.get("/kv_event_sources")).json()
