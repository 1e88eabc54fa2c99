"""When which worker is hurt, by a clock that is an argument; and a worker as a process that is hurt in earnest."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import pytest

from benchmarks.chaos_faults import LAST_HEALTHY, STOP_S, Mischief, SimulatedWorker
from benchmarks.processes import Processes


@dataclass
class Sufferer:
    """Writes down what happens to it; after a restart it takes a while to be there."""

    url: str
    story: list[str] = field(default_factory=list)
    starts_slowly: bool = False

    def kill(self) -> None:
        self.story.append("kill")

    def restart(self) -> None:
        self.story.append("restart")

    def is_there(self) -> bool:
        return not self.starts_slowly

    def stop(self) -> None:
        self.story.append("stop")

    def go_on(self) -> None:
        self.story.append("go on")

    def reset(self) -> None:
        self.story.append("reset")

    @property
    def is_hurt(self) -> bool:
        return bool(self.story) and self.story[-1] in ("kill", "stop")


@dataclass
class Operator:
    """Calls ready all but those it was asked not to, and those that are drained."""

    workers: list[Sufferer]
    drained: set[str] = field(default_factory=set)
    unready: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    """Their breakers are open."""

    def ready(self) -> dict[str, bool]:
        there = {worker.url for worker in self.workers} - self.drained - self.unready
        return {url: url not in self.broken for url in there}

    def drain(self, url: str) -> None:
        self.drained.add(url)

    def undrain(self, url: str) -> None:
        self.drained.remove(url)


def fleet(count: int = 4) -> Operator:
    return Operator([Sufferer(f"http://w{number}") for number in range(count)])


def mischief(operator: Operator, *, all_down_every_s: float | None = None) -> Mischief:
    return Mischief(operator.workers, operator, random.Random(1), every_s=1.0, all_down_every_s=all_down_every_s)


def test_the_last_two_are_spared() -> None:
    """At every moment of an hour, whatever is going on; and everything happens often."""
    operator = fleet()
    chaos = mischief(operator)
    for tick in range(36_000):
        chaos.look(tick / 10)
        hurt = {worker.url for worker in operator.workers if worker.is_hurt} | operator.drained
        assert len(operator.workers) - len(hurt) >= LAST_HEALTHY
    kinds = Counter(fault.kind for fault in chaos.inflicted)

    assert {"kill", "stop", "reset", "drain"} == set(kinds)
    assert all(300 < count for count in kinds.values())
    assert 3599 == len(chaos.inflicted) + chaos.passed_over


def test_every_fault_is_taken_back() -> None:
    """A stop after three seconds, the others after a while, all of them at the end."""
    operator = fleet()
    chaos = mischief(operator)
    for tick in range(600):
        chaos.look(tick / 10)
    chaos.end()
    stories = [worker.story for worker in operator.workers]

    assert set() == operator.drained
    assert set() == {fault for story in stories for fault in story[-1:]} & {"kill", "stop"}
    assert all(story.count("kill") == story.count("restart") for story in stories)
    assert {STOP_S} == {fault.for_s for fault in chaos.inflicted if fault.kind == "stop"}


def test_who_is_not_ready_is_left_alone() -> None:
    operator = fleet()
    operator.unready = {"http://w0", "http://w1"}
    chaos = mischief(operator)
    for second in range(100):
        chaos.look(second)

    assert [] == chaos.inflicted
    assert 99 == chaos.passed_over


def test_who_is_behind_a_breaker_is_not_one_of_the_two() -> None:
    """It may be hurt itself, with two others left; but those two may not."""
    operator = fleet()
    operator.broken, operator.unready = {"http://w0"}, {"http://w1"}
    chaos = mischief(operator)
    for second in range(100):
        chaos.look(second)

    assert {"http://w0"} == {url for fault in chaos.inflicted for url in fault.workers}


def test_who_has_begun_again_is_left_alone_until_it_is_there() -> None:
    """The gateway may not have noticed that it was gone."""
    operator = fleet(3)
    for worker in operator.workers:
        worker.starts_slowly = True
    chaos = mischief(operator)
    second = 0
    while not chaos.inflicted or chaos.inflicted[-1].kind != "kill":
        chaos.look(second := second + 1)
    (killed,) = chaos.inflicted[-1].workers
    for later in range(second + 10, second + 20):
        chaos.look(later)

    assert {killed} == chaos.suffering
    for worker in operator.workers:
        worker.starts_slowly = False
    operator.unready = {worker.url for worker in operator.workers}
    chaos.end()
    chaos.look(second + 20.5)
    assert set() == chaos.suffering


def test_all_are_taken_down_together_once_all_are_well() -> None:
    """No one is hurt for himself while it waits for that; afterwards all begin again."""
    operator = fleet()
    chaos = mischief(operator, all_down_every_s=30.0)
    for tick in range(3000):
        chaos.look(tick / 10)
    chaos.end()
    downs = [fault for fault in chaos.inflicted if fault.kind == "all down"]

    assert 5 <= len(downs)
    assert {4} == {len(fault.workers) for fault in downs}
    assert 1 < len({fault.for_s for fault in downs})
    assert not any(worker.is_hurt for worker in operator.workers)


@pytest.mark.e2e
async def test_a_worker_that_is_hurt_in_earnest() -> None:
    """A stream stands still, or breaks off; afterwards it answers at the same address."""
    with Processes() as processes:
        worker = SimulatedWorker(processes, "worker", ["--tpot-ms", "50"])
        worker.wait_ready()
        url = worker.url
        async with httpx.AsyncClient(base_url=url, timeout=30, verify=False) as client:
            await stop(worker, client)
            await cut(worker.reset, client)
            await answers(client)
            await cut(worker.kill, client)
            worker.restart()
            async with asyncio.timeout(60):
                while not worker.is_there():
                    await asyncio.sleep(0.05)
            await answers(client)

    assert url == worker.url


async def stop(worker: SimulatedWorker, client: httpx.AsyncClient) -> None:
    """Let it stand still, and go on."""
    worker.stop()
    with pytest.raises(httpx.ReadTimeout):
        await client.get("/health", timeout=0.3)
    worker.go_on()
    await answers(client)


async def answers(client: httpx.AsyncClient) -> None:
    assert 200 == (await client.post("/v1/completions", json={"prompt": "Hello", "max_tokens": 1})).status_code


async def cut(how: Callable[[], None], client: httpx.AsyncClient) -> None:
    """Do so in the middle of a stream, which must break off."""
    body = {"prompt": "Hello", "max_tokens": 1000, "ignore_eos": True, "stream": True}
    async with client.stream("POST", "/v1/completions", json=body) as reply:
        pieces = reply.aiter_bytes()
        await anext(pieces)
        await asyncio.to_thread(how)
        with pytest.raises(httpx.HTTPError):
            async for _ in pieces:
                pass
