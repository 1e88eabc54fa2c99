"""The gateway knows what engines hold because they tell it: predicted hits are those that the engines report."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving
from simulator.tokenizer_folder import write_tokenizer
from tests.e2e.stack import Stack, gateway, quick

SYSTEM = {"role": "system", "content": "You answer briefly and you never lie. " * 12}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The simulated model's own tokenizer."""
    path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(path)
    return path


def telling(**changes: Any) -> SimulatorOptions:
    """A worker that publishes what it does to its cache."""
    return quick(kv_events=EventOptions(**{"replay_port": 0, **changes}))


def kv_aware(folder: Path, **more: Any) -> dict[str, Any]:
    return {"strategy": "kv_aware", "tokenizer": {"path": str(folder), "budget_s": 5}, **more}


@asynccontextmanager
async def telling_stack(folder: Path, *options: SimulatorOptions) -> AsyncIterator[Stack]:
    """A gateway that has heard from all of its workers."""
    async with AsyncExitStack() as exits:
        workers = [await exits.enter_async_context(serving(each)) for each in options]
        there = await exits.enter_async_context(gateway(workers, model=kv_aware(folder)))
        await all_published(there, len(workers))
        yield there


async def all_published(there: Stack, workers: int) -> None:
    """Until so many streams can be relied on."""
    async with asyncio.timeout(60):
        while sum((await there.metric("warmgate_worker_kv_events_live")).values()) < workers:
            await asyncio.sleep(0.02)


async def heard(there: Stack) -> None:
    """Until the gateway has taken in all that the workers have published."""
    published = {}
    for worker in there.workers:
        reported_now = (await there.http.get(f"{worker}/control/kv_events")).json()
        published[f'{{worker="{worker}"}}'] = reported_now["next_sequence"] - 1
    async with asyncio.timeout(60):
        while True:
            taken = await there.metric("warmgate_kv_stream_sequence")
            if all(taken.get(worker, 0.0) >= last for worker, last in published.items() if last >= 0):
                return
            await asyncio.sleep(0.02)


async def transition(there: Stack, kind: str) -> None:
    """Until the stream of a worker has had such a transition."""
    async with asyncio.timeout(60):
        while True:
            counts = await there.metric("warmgate_kv_stream_transitions_total")
            if any(count >= 1 for labels, count in counts.items() if f'kind="{kind}"' in labels):
                return
            await asyncio.sleep(0.02)


async def converse(there: Stack, turns: int, *, name: str = "x", salt: str | None = None) -> list[tuple[int, int]]:
    """Predicted and reported cached tokens at each turn of a conversation."""
    messages: list[dict[str, str]] = [SYSTEM]
    seen = []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Question {turn} of {name}: what comes after the number {turn}?"})
        body = {"model": "tiny", "messages": messages, "max_tokens": 24}
        reply = await there.http.post("/v1/chat/completions", json=body | ({"cache_salt": salt} if salt else {}))
        answer = reply.json()
        cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        seen.append((int(reply.headers["x-warmgate-hit-tokens"]), cached))
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        await heard(there)
    return seen


def agree(seen: Sequence[tuple[int, int]]) -> bool:
    return all(predicted == reported for predicted, reported in seen)


@pytest.mark.parametrize(
    "options",
    [
        telling(),
        telling(format="array", replay_frames=3, hashes="bytes"),
        telling(first_sequence=1),
        SimulatorOptions(
            port=0, speed=0, dialect="sglang", block_size=8, kv_events=EventOptions(replay_port=0, topic="kv")
        ),
    ],
    ids=["vllm", "older vllm", "llm-d", "sglang"],
)
async def test_predicted_hits_are_those_that_engines_report(folder: Path, options: SimulatorOptions) -> None:
    """To the token, on every turn, with generated text that is part of the next prompt."""
    async with telling_stack(folder, options, options) as there:
        await converse(there, 1, name="first")
        seen = [pair for name in "abc" for pair in await converse(there, 4, name=name)]

        assert agree(seen), seen
        assert min(reported for _, reported in seen) > 100
        assert 1.0 == (await there.metric("warmgate_policy_effective"))['{model="tiny",policy="kv_aware"}']


async def test_hits_in_host_memory_are_predicted_to_the_token(folder: Path) -> None:
    """Six conversations evict each other from two GPUs with 512 tokens each, and come again."""
    options = quick(blocks=32, host_blocks=1000, kv_events=EventOptions(replay_port=0))
    async with telling_stack(folder, options, options) as there:
        await converse(there, 1, name="first")
        rounds = [[pair for name in "abcdef" for pair in await converse(there, 2, name=150 * name)] for _ in range(2)]
        metrics = [(await there.http.get(f"{worker}/metrics")).text for worker in there.workers]
        on_gpus = sum(
            float(hits) for hits in re.findall(r"vllm:prefix_cache_hits_total\{.*\} (.*)", "\n".join(metrics))
        )

        assert agree([*rounds[0], *rounds[1]]), rounds
        assert min(reported for _, reported in rounds[1]) > 100
        assert on_gpus < sum(reported for _, reported in [*rounds[0], *rounds[1]])


async def test_events_that_come_late_cost_no_more_than_the_last_answer(folder: Path) -> None:
    """What was sent is predicted until its engine reports; only what it generated is not known yet."""
    async with telling_stack(folder, telling(batch_s=1.0)) as there:
        await converse(there, 1, name="first")
        seen = await converse(there, 5)

        assert all(0 <= reported - predicted <= 48 for predicted, reported in seen[1:]), seen
        assert seen[-1][0] > 100


async def test_prompts_of_another_salt_share_nothing(folder: Path) -> None:
    """The same words hit nothing until they were asked with that salt; then all."""
    async with telling_stack(folder, telling()) as there:
        await converse(there, 1)
        seen = await converse(there, 2, salt="pepper") + await converse(there, 2, salt="pepper")

        assert agree(seen), seen
        assert [True, False, False, False] == [reported == 0 for _, reported in seen]


async def test_a_gateway_that_starts_before_warm_engines_knows_what_they_hold(folder: Path) -> None:
    """They replay what they have reported; the first prediction is right."""
    async with serving(telling()) as worker:
        async with gateway([worker], model=kv_aware(folder)) as there:
            await all_published(there, 1)
            await converse(there, 3)
        async with gateway([worker], model=kv_aware(folder)) as there:
            await all_published(there, 1)
            seen = await converse(there, 3)

    assert agree(seen), seen
    assert seen[0][0] > 100


async def test_an_engine_that_restarts_holds_nothing(folder: Path) -> None:
    """Its sequence begins again, and so does what is known of it."""
    async with telling_stack(folder, telling()) as there:
        await converse(there, 3)
        (worker,) = there.workers
        await there.http.post(f"{worker}/control/kv_events/restart")
        first = (await converse(there, 1, name="other"))[0]
        await transition(there, "restart")
        await all_published(there, 1)
        seen = await converse(there, 3)

        assert 0 == first[1]
        assert agree(seen[1:]), seen


async def test_lost_batches_are_asked_for_again(folder: Path) -> None:
    """Two batches are not sent; the next one shows the gap."""
    async with telling_stack(folder, telling()) as there:
        await converse(there, 1)
        (worker,) = there.workers
        await there.http.post(f"{worker}/control/kv_events", json={"lose": 2})
        await ask_unheard(there)
        await transition(there, "gap")
        await all_published(there, 1)
        await heard(there)

        assert agree(seen := await converse(there, 3)), seen


async def ask_unheard(there: Stack) -> None:
    """Three turns of which not everything arrives at once."""
    for turn in range(3):
        messages = [SYSTEM, {"role": "user", "content": f"Nobody hears number {turn}. " * 20}]
        body = {"model": "tiny", "messages": messages, "max_tokens": 24}
        assert 200 == (await there.http.post("/v1/chat/completions", json=body)).status_code


async def test_without_events_goes_what_was_sent(folder: Path) -> None:
    """An engine that reports nothing is served as by prefix_aware, and the metric says so."""
    async with serving(quick()) as worker, gateway([worker], model=kv_aware(folder)) as there:
        body = {"model": "tiny", "messages": [SYSTEM], "max_tokens": 8}
        replies = [await there.http.post("/v1/chat/completions", json=body) for _ in range(2)]

        assert [True, False] == [reply.headers["x-warmgate-hit-tokens"] == "0" for reply in replies]
        assert 1.0 == (await there.metric("warmgate_policy_effective"))['{model="tiny",policy="prefix_aware"}']
