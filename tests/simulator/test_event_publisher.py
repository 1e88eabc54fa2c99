import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from engine_model.blocks import PLAIN, BlockHash, BlockScope
from simulator.errors import Dialect
from simulator.event_options import EventOptions
from simulator.event_publisher import EventPublisher
from simulator.event_wire import Notation, wire_of
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.simulator.listener import TIMEOUT_S, Listener, listening, replayed

pytestmark = pytest.mark.e2e

PROMPT = list(range(100, 140))  # two full blocks of 16, and a half


class Counts:
    """A sink that knows how many copies of each block there are."""

    def __init__(self) -> None:
        self.copies: Counter[BlockHash] = Counter()

    def stored(
        self,
        hashes: Sequence[BlockHash],
        parent: BlockHash | None,
        token_ids: Sequence[int],
        scope: BlockScope = PLAIN,
    ) -> None:
        self.copies.update(hashes)

    def removed(self, hashes: Sequence[BlockHash]) -> None:
        self.copies.subtract(hashes)

    def cleared(self) -> None:
        self.copies.clear()


@asynccontextmanager
async def publishing(
    events: EventOptions | None = None, **options: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Listener]]:
    """A worker, and one who is known to hear everything from here on."""
    made = SimulatorOptions(port=0, **{"speed": 0, "kv_events": events or EventOptions(), **options})
    async with (
        serving(made) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker,
        listening(await endpoint_of(worker, made.dialect)) as listener,
    ):
        await listener.hear(worker)
        yield worker, listener


async def endpoint_of(worker: httpx.AsyncClient, dialect: Dialect = "vllm") -> str:
    """Return the endpoint as a router finds it."""
    if dialect == "sglang":
        source = (await worker.get("/server_info")).json()["kv_events"]
        return f"tcp://{source['endpoint_host']}:{source['endpoint_port_base']}"
    reported = await worker.get("/kv_event_sources" if dialect == "vllm" else "/control/kv_events")
    state: dict[str, Any] = reported.json()
    return str(state.get("0", state)["endpoint"])


async def complete(worker: httpx.AsyncClient, prompt: Any = PROMPT, **fields: Any) -> dict[str, Any]:
    body = {"prompt": prompt, "max_tokens": 1, "ignore_eos": True, "return_token_ids": True, **fields}
    reply = await worker.post("/v1/completions", json=body)
    assert 200 == reply.status_code, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


async def test_prompt_and_answer_are_reported_with_their_tokens() -> None:
    """A batch for each step that stored something: the prompt's blocks, then the one that the answer filled."""
    async with publishing(EventOptions(topic="kv@here@tiny")) as (worker, listener):
        reply = await complete(worker, max_tokens=9)
        first, second = await listener.next(), await listener.next()

    (prompt,), (answer,) = first.events, second.events
    assert (b"kv@here@tiny", 0, 1) == (first.topic, first.rank, second.sequence - first.sequence)
    assert (None, PROMPT[:32]) == (prompt["parent_block_hash"], prompt["token_ids"])
    assert prompt["block_hashes"][-1] == answer["parent_block_hash"]
    assert PROMPT[32:] + reply["choices"][0]["token_ids"][:8] == answer["token_ids"]
    assert first.sent_at <= second.sent_at


async def test_a_text_is_reported_with_the_tokens_of_tokenize() -> None:
    chat = {"messages": [{"role": "user", "content": "Tell me of the sea and its depths, please. " * 3}]}
    async with publishing() as (worker, listener):
        ids = (await worker.post("/tokenize", json=chat)).json()["tokens"]
        await worker.post("/v1/chat/completions", json={**chat, "max_tokens": 1})
        (event,) = (await listener.next()).events

    assert ids[: len(ids) // 16 * 16] == event["token_ids"]


async def test_a_salt_is_reported_and_shares_nothing() -> None:
    """With the first block; the blocks are others than without it, and cached tokens say so."""
    async with publishing() as (worker, listener):
        answers = [await complete(worker, cache_salt=salt) for salt in (None, "mine", "mine", "yours")]
        events = [(await listener.next()).events[0] for _ in range(3)]

    assert [0, 0, 32, 0] == [reply["usage"]["prompt_tokens_details"]["cached_tokens"] for reply in answers]
    assert [[None, None], [["mine"], None], [["yours"], None]] == [event["extra_keys"] for event in events]
    assert 6 == len({block for event in events for block in event["block_hashes"]})


async def test_an_adapter_is_reported_and_shares_nothing() -> None:
    async with publishing(lora_modules=("poet", "clerk")) as (worker, listener):
        answers = [await complete(worker, model=model) for model in ("tiny", "clerk", "clerk")]
        plain, adapted = [(await listener.next()).events[0] for _ in range(2)]

    assert ["tiny", "clerk", "clerk"] == [reply["model"] for reply in answers]
    assert [0, 0, 32] == [reply["usage"]["prompt_tokens_details"]["cached_tokens"] for reply in answers]
    assert (None, None) == (plain["lora_id"], plain["lora_name"])
    assert (2, "clerk", [["clerk"], ["clerk"]]) == (adapted["lora_id"], adapted["lora_name"], adapted["extra_keys"])


async def test_content_computed_twice_is_reported_twice() -> None:
    """Two that begin in the same step, while another one keeps the engine busy: neither finds the other's blocks."""
    async with publishing() as (worker, listener):
        await complete(worker, [[1] * 8, PROMPT, PROMPT])
        (one, two) = (await listener.next()).events

    assert one == two
    assert PROMPT[:32] == one["token_ids"]


@pytest.mark.parametrize("timing", ["chunked", "fifo"])
async def test_what_is_reported_is_what_the_cache_holds(timing: Any) -> None:
    """Copy by copy, after many requests in a cache too small for them."""
    sink = Counts()
    reported: Counter[int] = Counter()
    made = SimulatorOptions(port=0, speed=0, blocks=24, timing=timing, kv_events=EventOptions(replay_port=0))
    async with serving(made, sink=sink) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker:
        prompts = [list(range(start, start + 100)) for start in range(0, 400, 20)]
        await asyncio.gather(*(complete(worker, prompt, max_tokens=40) for prompt in prompts))
        source = (await worker.get("/kv_event_sources")).json()["0"]
        frames = await replayed(source["replay_endpoint"], 0)
    for frame in frames[:-1]:
        for event in msgspec.msgpack.decode(frame[3])[1]:
            hashes = event["block_hashes"]
            reported.update(hashes) if event["type"] == "BlockStored" else reported.subtract(hashes)

    assert +reported == +sink.copies
    assert min(reported.values()) == 0 < max(reported.values())
    assert len(frames) > 20


async def test_several_removals_are_one_event_in_sglang() -> None:
    """Signed hashes; the socket is found by /server_info."""
    async with publishing(dialect="sglang", blocks=4) as (worker, listener):
        await complete(worker)
        (stored,) = (await listener.next()).events
        await complete(worker, list(range(500, 549)))
        events: list[dict[str, Any]] = []
        while not any(event["type"] == "BlockRemoved" for event in events):
            events += (await listener.next()).events

    (removed,) = [event for event in events if event["type"] == "BlockRemoved"]
    assert sorted(stored["block_hashes"]) == sorted(removed["block_hashes"])
    assert all(-(2**63) <= block < 2**63 for block in stored["block_hashes"])
    assert "extra_keys" not in stored


async def test_dynamos_workers_leave_fields_out() -> None:
    async with publishing(dialect="dynamo") as (worker, listener):
        await complete(worker)
        (stored,) = (await listener.next()).events

    assert {"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "group_idx"} == stored.keys()


def a_publisher(options: EventOptions) -> EventPublisher:
    """Its sockets are closed: what it sends can be looked up in its log."""
    wire = wire_of("vllm", "map", Notation(16))
    return EventPublisher(options, wire=wire, host="127.0.0.1", unix=lambda: 7.5)


async def published(publisher: EventPublisher) -> list[Any]:
    async with asyncio.timeout(TIMEOUT_S):
        while not publisher.log.kept:
            await asyncio.sleep(0.01)
    return [msgspec.msgpack.decode(batch.payload) for batch in publisher.log.since(0)]


async def test_one_turn_of_the_event_loop_is_one_batch() -> None:
    """In the order in which it happened, with the time; what follows is in the next one."""
    publisher = a_publisher(EventOptions())
    publisher.removed([4])
    publisher.stored([5], None, range(16))
    publisher.cleared()
    await asyncio.sleep(0)
    publisher.removed([5])
    await asyncio.sleep(0)
    first, second = await published(publisher)

    assert ["BlockRemoved", "BlockStored", "AllBlocksCleared"] == [event["type"] for event in first[1]]
    assert (7.5, 1) == (first[0], len(second[1]))


async def test_the_host_tier_comes_last_in_a_batch() -> None:
    """vLLM does the same. Nothing that was cleared comes back."""
    publisher = a_publisher(EventOptions())
    publisher.offloaded([4, 5])
    publisher.dropped([3])
    publisher.removed([4])
    await asyncio.sleep(0)
    publisher.offloaded([6])
    publisher.cleared()
    publisher.offloaded([7])
    await asyncio.sleep(0)
    first, second = await published(publisher)

    assert [("GPU", [4]), ("CPU", [4]), ("CPU", [5]), ("CPU", [3])] == [
        (event["medium"], event["block_hashes"]) for event in first[1]
    ]
    assert [[6], None, [7]] == [event.get("block_hashes") for event in second[1]]


async def test_a_host_tier_is_reported_and_its_hits_are_cached_tokens() -> None:
    """Two prompts that take turns in a cache for one: the first is evicted from the GPU and loaded from the host."""
    other = list(range(500, 540))
    async with publishing(blocks=3, host_blocks=8) as (worker, listener):
        answers = [await complete(worker, prompt) for prompt in (PROMPT, other, PROMPT)]
        first = (await listener.next()).events
        kept = first[0]["block_hashes"]
        later: list[dict[str, Any]] = []
        while kept not in [event["block_hashes"] for event in later if event["type"] == "BlockStored"]:
            later += (await listener.next()).events

    assert [0, 0, 32] == [reply["usage"]["prompt_tokens_details"]["cached_tokens"] for reply in answers]
    assert [("GPU", kept), ("CPU", kept[:1]), ("CPU", kept[1:])] == [
        (event["medium"], event["block_hashes"]) for event in first
    ]
    assert [("GPU", kept)] == [(event["medium"], event["block_hashes"]) for event in later[-1:]]
    assert not [event for event in later if event["type"] == "BlockRemoved" and event["medium"] == "CPU"]


async def test_batches_can_be_late() -> None:
    """What happens within the time is one batch, however many turns it takes."""
    publisher = a_publisher(EventOptions(batch_s=1))
    for block in range(3):
        publisher.stored([block], None, range(16))
        await asyncio.sleep(0)
    assert 0 == publisher.log.kept
    ((_, events, _),) = await published(publisher)

    assert [[0], [1], [2]] == [event["block_hashes"] for event in events]


async def test_what_is_not_yet_a_batch_is_dropped_on_closing() -> None:
    """Nothing is left behind on the event loop."""
    publisher = a_publisher(EventOptions())
    publisher.cleared()
    publisher.close()
    await asyncio.sleep(0)

    assert 0 == publisher.log.kept


async def test_the_first_number_may_be_one() -> None:
    options = EventOptions(first_sequence=1, format="array", hashes="bytes", replay_port=0, buffer_steps=2)
    made = SimulatorOptions(port=0, speed=0, kv_events=options)
    async with serving(made) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker:
        for start in range(4):
            await complete(worker, [start] * 16)
        source = (await worker.get("/kv_event_sources")).json()["0"]
        frames = await replayed(source["replay_endpoint"], 0)

    (event,) = msgspec.msgpack.decode(frames[1][3])[1]
    assert [3, 4] == [int.from_bytes(frame[2], "big") for frame in frames[:-1]]
    assert ("BlockStored", 32, None) == (event[0], len(event[1][0]), event[2])


async def test_a_block_of_a_trace_cannot_be_reported() -> None:
    """Its name is no number."""
    with pytest.raises(AssertionError, match="only blocks of a trace have other ids"):
        a_publisher(EventOptions()).stored(["a"], None, ())
