"""Pairing of streams and workers: a simulated frontend with two workers, over real sockets."""

import random

import httpx
import msgspec
import pytest

from gateway.workers.dynamo.pairing import Pairing, token_runs
from gateway.workers.worker_spec import EventsSpec
from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving

OPTIONS = SimulatorOptions(
    port=0, speed=0, blocks=256, dialect="dynamo", ranks=2, kv_events=EventOptions(replay_port=0)
)


async def site(client: httpx.AsyncClient, url: str) -> tuple[list[str], list[EventsSpec]]:
    """Ids of the workers behind it, and their streams in the same order."""
    listed = (await client.get(f"{url}/health")).json()["instances"]
    reported = [(await client.get(f"{url}/control/{path}")).json() for path in ("kv_events", "ranks/1/kv_events")]
    streams = [EventsSpec(endpoint=each["endpoint"]) for each in reported]
    return [str(each["instance_id"]) for each in listed], streams


@pytest.mark.e2e
async def test_each_is_known_by_what_it_was_asked() -> None:
    """Also if somebody else asks meanwhile; a stream where no one publishes is no one's."""
    nowhere = EventsSpec(endpoint="tcp://127.0.0.1:1")
    async with serving(OPTIONS) as url, httpx.AsyncClient(timeout=60, verify=False) as client:
        ids, streams = await site(client, url)
        pairing = Pairing(client, rng=random.Random(1), settle_s=1.0)
        await client.post(f"{url}/v1/completions", json={"model": "tiny", "prompt": [7] * 64, "max_tokens": 1})
        found = await pairing.owners(url, {}, "tiny", ids, [nowhere, *reversed(streams)])

    assert dict(zip(ids, streams, strict=True)) == found


@pytest.mark.parametrize("model", ["other", "tiny"])
@pytest.mark.e2e
async def test_whose_stream_reports_nothing_is_not_found(model: str) -> None:
    """The frontend does not know the model, or the stream is not among those that were named."""
    async with serving(OPTIONS) as url, httpx.AsyncClient(timeout=60, verify=False) as client:
        ids, streams = await site(client, url)
        named = streams[:1] if model == "tiny" else streams
        found = await Pairing(client, rng=random.Random(1), settle_s=1.0, heard_s=0.2).owners(
            url, {}, model, ids, named
        )

    assert ({ids[0]: streams[0]} if model == "tiny" else {}) == found


async def test_a_frontend_that_does_not_answer_is_no_fault() -> None:
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        streams = [EventsSpec(endpoint=f"tcp://{host}:1") for host in ("127.0.0.1", "*")]
        pairing = Pairing(client, rng=random.Random(1), settle_s=0.0, heard_s=0.0)

        assert {} == await pairing.owners("http://127.0.0.1:1", {}, "tiny", ["7"], streams)


def test_tokens_stand_in_maps_and_in_arrays() -> None:
    """Other events have none."""
    events = [
        {"type": "BlockStored", "token_ids": [1, 2]},
        ["BlockStored", [9], None, [3, 4], 16],
        ["BlockRemoved", [9]],
        {"type": "AllBlocksCleared"},
        7,
    ]

    assert [[1, 2], [3, 4]] == list(token_runs(msgspec.msgpack.encode([1.0, events, 0])))
    assert [] == [run for payload in (b"", b"\xc1", msgspec.msgpack.encode([1.0])) for run in token_runs(payload)]
