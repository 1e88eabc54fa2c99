"""A disconnected caller stops all work: in every phase of a request, streaming or not, before a gateway process.

How long it takes until worker or fallback is free is printed; the simulated ones and the fake of Bedrock say themselves
that they were left.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from simulator.options import SimulatorOptions
from tests.e2e.cascading import (
    CHAT,
    PROMPTLY,
    Cascading,
    MortalWorker,
    chat,
    measured,
    on_bedrock,
    on_openai,
    served_as_tiny,
    since,
    until,
)
from tests.e2e.gateway_process import gateway_process
from tests.fakes.bedrock import (
    ENVIRONMENT,
    FOREIGN_ENVIRONMENT,
    MESSAGE_START,
    Cut,
    FakeBedrock,
    Scenario,
    Silent,
    Streams,
    text_delta,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

THINKS = SimulatorOptions(port=0, prefill_tokens_per_s=10)
"""Minutes before a first token."""
TALKS = SimulatorOptions(port=0, tpot_ms=100)
WORKERS = {
    "prompt": THINKS,
    "answer": TALKS,
    "queue": THINKS,
    "dead": TALKS,
    "first": TALKS,
    "second": TALKS,
    "endpoint-prompt": THINKS,
    "endpoint-answer": TALKS,
}
STREAMS: dict[str, Scenario] = {
    "bedrock-status": Silent(),
    "bedrock-prompt": Streams((MESSAGE_START, Cut.STALL)),
    "bedrock-answer": Streams((MESSAGE_START, text_delta("Hel"), Cut.STALL)),
}
WIRES = ("converse", "openai")
LONG: dict[str, Any] = {"max_tokens": 10_000, "ignore_eos": True}
"""A thousand seconds of a worker that talks."""
FAR = {"context_tokens": 1}
"""Every request is too long for the workers, and so goes to the fallback at once."""


@dataclass(frozen=True)
class Place:
    gateway: Cascading
    workers: Mapping[str, MortalWorker]
    bedrocks: Mapping[str, FakeBedrock]

    async def states(self, *names: str) -> list[str]:
        """Return the outcomes of the workers' requests."""
        async with httpx.AsyncClient(timeout=60, verify=False) as http:
            reported = [(await http.get(f"{self.workers[name].url}/control/requests")).json() for name in names]
        return [entry["state"] for each in reported for entry in each["requests"]]

    async def are(self, *names: str, states: list[str]) -> None:
        """Wait until they are such."""
        await until(lambda: self.states(*names), lambda found: states == sorted(found))

    async def in_flight(self, model: str) -> float:
        return await self.gateway.metric("warmgate_requests_in_flight", model=model)


def models(url: Mapping[str, str], bedrocks: Mapping[str, FakeBedrock]) -> list[dict[str, Any]]:
    with_one = [
        {"name": name, "strategy": "kv_aware" if name == "queue" else "prefix_aware", "workers": [url[name]]}
        for name in ("prompt", "answer", "queue", "dead")
    ]
    pair = [url["first"], url["second"]]
    with_endpoint = [
        {"name": name, "workers": [], "fallbacks": [on_openai(url[name], model="tiny")], **FAR}
        for name in ("endpoint-prompt", "endpoint-answer")
    ]
    with_bedrock = [
        {
            "name": name,
            "workers": [],
            "fallbacks": [on_bedrock("openai.gpt-oss-20b-1:0", fake.base_url, wire=name.rpartition(" ")[2])],
            **FAR,
        }
        for name, fake in bedrocks.items()
    ]
    return [
        *with_one,
        {"name": "continued", "continuation": "tokens", "workers": pair},
        *with_endpoint,
        *with_bedrock,
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    folder = tmp_path_factory.mktemp("disconnects")
    async with AsyncExitStack() as exits:
        patch = exits.enter_context(pytest.MonkeyPatch.context())
        for name in FOREIGN_ENVIRONMENT:
            patch.delenv(name, raising=False)
        workers = {name: await exits.enter_async_context(MortalWorker(each)) for name, each in WORKERS.items()}
        bedrocks = {
            name: await exits.enter_async_context(FakeBedrock(scenario).serving())
            for name, scenario in bedrock_scenarios().items()
        }
        settings = {
            "server": {"host": "127.0.0.1", "port": 0},
            "models": served_as_tiny(models({name: each.url for name, each in workers.items()}, bedrocks)),
            "bedrock": {"canary_at_start": False},
            # So that the gateway knows how busy a worker is that thinks.
            "routing": {"initial_prefill_tokens_per_s": 10},
            **PROMPTLY,
            "retry": {"wait_s": 600},
        }
        process = await exits.enter_async_context(gateway_process(folder, settings, variables=ENVIRONMENT))
        yield Place(Cascading(process), workers, bedrocks)


def bedrock_scenarios() -> dict[str, Scenario]:
    of_converse = {
        f"{name} {way} converse": scenario for name, scenario in STREAMS.items() for way in ("stream", "whole")
    }
    return of_converse | {"bedrock-status stream openai": Silent(), "bedrock-status whole openai": Silent()}


class Caller:
    def __init__(self, place: Place, model: str, text: str = "hi", **more: Any) -> None:
        self._body = chat(model, text, **more)
        self._url = place.gateway.process.url
        self._task: asyncio.Task[None] | None = None
        self.reads = asyncio.Event()
        """Something of an answer has come."""

    def ask(self) -> None:
        self._task = asyncio.ensure_future(self._ask())

    async def leave(self) -> float:
        """The moment."""
        assert self._task is not None
        assert not self._task.done(), self._task.result()
        self._task.cancel()
        left = time.monotonic()
        await asyncio.wait([self._task])
        return left

    async def _ask(self) -> None:
        async with (
            httpx.AsyncClient(base_url=self._url, timeout=60, verify=False) as http,
            http.stream("POST", CHAT, json=self._body) as reply,
        ):
            assert 200 == reply.status_code, await reply.aread()
            async for _ in reply.aiter_bytes():
                self.reads.set()


async def freed(place: Place, model: str, left: float, upstream: Callable[[], Awaitable[object]]) -> None:
    """Wait until every client that worked knows, and the gateway has nothing under way; print how long that took."""
    await upstream()
    upstream_s = since(left)
    await until(lambda: place.in_flight(model), lambda count: count == 0.0)
    measured(f"{model}: free after {upstream_s:.2f} s, settled after {since(left):.2f} s")


ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@ways
async def test_while_a_worker_computes_the_prompt(place: Place, stream: bool) -> None:
    await leave_worker(place, "prompt", "prompt", text="x " * 1000, stream=stream)


@ways
async def test_while_a_worker_answers(place: Place, stream: bool) -> None:
    await leave_worker(place, "answer", "answer", stream=stream, **LONG)


@ways
async def test_while_another_endpoint_computes_the_prompt(place: Place, stream: bool) -> None:
    await leave_worker(place, "endpoint-prompt", "endpoint-prompt", text="x " * 1000, stream=stream)


@ways
async def test_while_another_endpoint_answers(place: Place, stream: bool) -> None:
    await leave_worker(place, "endpoint-answer", "endpoint-answer", stream=stream, **LONG)


async def leave_worker(place: Place, model: str, worker: str, **more: Any) -> None:
    """Ask, wait until it is worked at (of a stream that answers: until some of it came), and go away."""
    earlier = await place.states(worker)
    caller = Caller(place, model, **more)
    caller.ask()
    await place.are(worker, states=sorted([*earlier, "running"]))
    if more["stream"] and "max_tokens" in more:
        await asyncio.wait_for(caller.reads.wait(), 60)
    left = await caller.leave()
    await freed(place, model, left, lambda: place.are(worker, states=sorted([*earlier, "aborted"])))

    assert "running" not in await place.states(worker)


@ways
async def test_while_it_waits_for_its_turn(place: Place, stream: bool) -> None:
    """Behind another one, which is answered in peace."""
    busy, caller = (Caller(place, "queue", f"{text} " * 1000, stream=stream) for text in "xy")
    earlier = await place.states("queue")
    busy.ask()
    await place.are("queue", states=sorted([*earlier, "running"]))
    caller.ask()
    waiting = lambda: place.gateway.metric("warmgate_requests_waiting", model="queue")  # noqa: E731
    await until(waiting, lambda count: count == 1.0)
    left = await caller.leave()
    await until(waiting, lambda count: count == 0.0)
    measured(f"queue: out of it after {since(left):.2f} s")
    await freed(place, "queue", await busy.leave(), lambda: place.are("queue", states=sorted([*earlier, "aborted"])))

    assert len(earlier) + 1 == len(await place.states("queue"))


@ways
async def test_while_no_worker_is_there(place: Place, stream: bool) -> None:
    """No one is asked for it when one comes."""
    worker = place.workers["dead"]
    await worker.die()
    waiting = lambda: place.gateway.metric("warmgate_requests_without_worker", model="dead")  # noqa: E731
    caller = Caller(place, "dead", stream=stream)
    caller.ask()
    await until(waiting, lambda count: count == 1.0)
    left = await caller.leave()
    await freed(place, "dead", left, lambda: until(waiting, lambda count: count == 0.0))
    await worker.live()
    up = lambda: place.gateway.metric("warmgate_worker_up", model="dead")  # noqa: E731
    await until(up, lambda ups: ups == 1.0)

    assert [] == await place.states("dead")


async def test_while_another_worker_goes_on_with_the_stream(place: Place) -> None:
    """The first was killed in the middle of it."""
    caller = Caller(place, "continued", stream=True, **LONG)
    caller.ask()
    await asyncio.wait_for(caller.reads.wait(), 60)
    (first,) = [name for name in ("first", "second") if await place.states(name)]
    other = "second" if first == "first" else "first"
    await place.workers[first].die()
    await place.are(other, states=["running"])
    left = await caller.leave()
    await freed(place, "continued", left, lambda: place.are(other, states=["aborted"]))

    assert ["aborted"] == await place.states(other)


@pytest.mark.parametrize("model", bedrock_scenarios())
async def test_while_bedrock_has_it(place: Place, model: str) -> None:
    """Before its status, before its first word, and after it."""
    fake = place.bedrocks[model]
    caller = Caller(place, model, stream=" stream " in model)
    caller.ask()
    assert await fake.was_called(within_s=60)
    if "answer stream" in model:
        await asyncio.wait_for(caller.reads.wait(), 60)
    assert not await fake.caller_left(within_s=0)
    left = await caller.leave()
    have_left: list[bool] = []

    async def upstream() -> None:
        have_left.append(await fake.caller_left(within_s=60))

    await freed(place, model, left, upstream)

    counted = place.gateway.metric
    assert 1.0 == await counted("warmgate_fallback_requests_total", model=model, outcome="left")
    assert 0.0 == await counted("warmgate_fallback_held_usd", model=model)
    assert [True] == have_left
    assert [] == fake.rejections
