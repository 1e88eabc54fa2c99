"""Asking all workers how they are, again and again."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from cache_index import WorkerId
from gateway.backends.client import WorkerClient
from gateway.backends.engine_metrics import Observation
from gateway.workers.health import Health, HealthRules
from gateway.workers.health_checker import HealthTarget
from routing.fleet import Fleet
from tests.fakes.engine import Answer, Drips, FakeEngine, Floods, Garbage, Hangs, Page, fake_engine
from tests.gateway.examples import Clock
from tests.routing.examples import A, B, a_fleet, a_request, book

VLLM = Page('vllm:num_requests_running{engine="0"} 3.0\n')
WELL: dict[str, Answer] = {"/health": Page(), "/metrics": VLLM}


@dataclass
class Ward:
    """Workers that are taken to be down, and their health."""

    engines: dict[WorkerId, FakeEngine]
    fleet: Fleet
    clock: Clock
    health: Health
    targets: list[HealthTarget]
    rules: HealthRules

    async def check(self) -> list[str]:
        """The workers that are up after one more check."""
        await self.health.check()
        return self.up()

    def up(self) -> list[str]:
        return [worker.id for worker in self.fleet if worker.is_up]


@asynccontextmanager
async def ward(
    answers: Mapping[WorkerId, Mapping[str, Answer]],
    *,
    interval_s: float = 0.01,
    timeout_s: float = 5.0,
    metrics_interval_s: float = 5.0,
    observed: dict[WorkerId, Observation] | None = None,
    seed: int = 0,
) -> AsyncIterator[Ward]:
    async with AsyncExitStack() as exits:
        engines = {worker: await exits.enter_async_context(fake_engine(a)) for worker, a in answers.items()}
        client = await exits.enter_async_context(WorkerClient())
        clock = Clock(0.0)
        fleet = a_fleet(*engines)
        for worker in engines:
            fleet.set_up(worker, up=False)

        def target(worker: WorkerId, engine: FakeEngine) -> HealthTarget:
            def note(observation: Observation) -> None:
                if observed is not None:
                    observed[worker] = observation

            return HealthTarget(worker, engine.url, fleet, "tiny", lambda: None, note)

        rules = HealthRules(
            path="/health",
            interval_s=interval_s,
            timeout_s=timeout_s,
            failures_to_down=2,
            successes_to_up=1,
            metrics_interval_s=metrics_interval_s,
        )
        targets = [target(worker, engine) for worker, engine in engines.items()]
        health = Health(rules, client=client, clock=clock, rng=random.Random(seed))
        health.attend(targets, rules)
        yield Ward(engines, fleet, clock, health, targets, rules)


@asynccontextmanager
async def running(there: Ward) -> AsyncIterator[None]:
    """While it checks by itself."""
    async with asyncio.TaskGroup() as tasks:
        loop = tasks.create_task(there.health.run())
        yield
        loop.cancel()
    assert loop.cancelled()


async def until(engine: FakeEngine, path: str, times: int) -> None:
    """Until *path* was asked so often."""
    async with asyncio.timeout(60):
        while engine.times(path) < times:
            await asyncio.sleep(0.002)


def visits() -> int:
    """Tasks that attend workers. Others come and go: the engines here have one for each connection."""
    return sum("Health._attend" in repr(task.get_coro()) for task in asyncio.all_tasks())


# ---- one round


async def test_a_worker_is_up_once_it_was_checked() -> None:
    """Up is proved, not presumed."""
    async with ward({A: WELL, B: {"/health": Garbage()}}) as there:
        assert [] == there.up()
        assert ["a"] == await there.check()


@pytest.mark.e2e
async def test_a_round_takes_no_longer_than_its_timeouts() -> None:
    """A worker that hangs is dead; of one that is not known yet it is also asked what it is."""
    async with (
        ward({A: {"/health": Hangs(), "/metrics": Hangs()}, B: WELL}, timeout_s=1.0) as there,
        asyncio.timeout(60),
    ):
        assert ["b"] == await there.check()


async def test_a_reading_is_kept_for_three_intervals_of_both_kinds() -> None:
    """One that is late is not missing yet."""
    observed: dict[WorkerId, Observation] = {}
    async with ward({A: WELL}, observed=observed, interval_s=2.0, metrics_interval_s=5.0) as there:
        await there.check()

    assert 21.0 == observed[A].kept_s


# ---- again and again


async def test_it_checks_until_it_is_cancelled() -> None:
    """Every interval, and whatever is answered."""
    async with ward({A: WELL}) as there, running(there):
        engine = there.engines[A]
        for status in (200, 500, 200):
            engine.answers["/health"] = Page(status=status)
            await until(engine, "/health", engine.times("/health") + 3)
            assert (["a"] if status == 200 else []) == there.up()


@pytest.mark.parametrize("path", ["/health", "/metrics"])
@pytest.mark.parametrize("ill", [Hangs(), Drips(), Floods(), Garbage(), Garbage(b"\xff" * 100_000)])
async def test_an_ill_worker_delays_no_one_else(path: str, ill: Answer) -> None:
    """The other is checked and read many times while the first one's answer is waited for."""
    async with ward({A: WELL | {path: ill}, B: WELL}, timeout_s=300.0, metrics_interval_s=0.0) as there, running(there):
        await until(there.engines[A], path, 1)
        for question in ("/health", "/metrics"):
            before = there.engines[B].times(question)
            await until(there.engines[B], question, before + 5)
        if isinstance(ill, Hangs | Drips):
            assert 1 == there.engines[A].times(path)


@pytest.mark.e2e
async def test_workers_are_not_asked_all_at_once() -> None:
    """Each begins at a moment of its own within the interval, and they do not fall into step."""
    workers = [WorkerId(letter) for letter in "abcdefgh"]
    async with ward(dict.fromkeys(workers, WELL), interval_s=2.0) as there, running(there), asyncio.timeout(60):
        loop = asyncio.get_running_loop()
        moments: list[float] = []
        waiting = set(workers)
        while waiting:
            await asyncio.sleep(0.002)
            for worker in [w for w in waiting if there.engines[w].asked]:
                waiting.discard(worker)
                moments.append(loop.time())

    assert max(moments) - min(moments) > 0.3  # by this seed 1.3 s


async def test_what_fails_with_one_worker_does_not_end_the_checks(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and tried again."""
    async with ward({A: WELL, B: WELL}) as there:
        broken = there.targets[0]

        def fails(_: Observation) -> None:
            raise RuntimeError("nobody foresaw it")

        broken.on_reading = fails
        assert ["a", "b"] == await there.check()
        async with running(there):
            await until(there.engines[A], "/health", 3)

    assert "checking worker a of model tiny failed" == caplog.messages[0]


# ---- readings before their turn


async def test_an_engine_is_read_when_somebody_needs_to_know() -> None:
    """Long before its turn; others are not, and no one is where no such worker is."""
    async with ward({A: WELL, B: WELL}, metrics_interval_s=1000.0) as there:
        await there.check()
        there.health.read_soon(there.engines[A].url)
        assert [1, 1] == [there.engines[each].times("/metrics") for each in (A, B)]

        async with running(there):
            await until(there.engines[A], "/health", 2)
            there.health.read_soon(there.engines[A].url)
            there.health.read_soon("http://nobody.test")
            await until(there.engines[A], "/metrics", 2)
        there.health.read_soon(there.engines[A].url)

        assert [2, 1] == [there.engines[each].times("/metrics") for each in (A, B)]


async def test_one_reading_at_a_time_is_enough() -> None:
    """However many streams wonder; and it ends with the checks."""
    async with ward({A: WELL}, metrics_interval_s=1000.0, timeout_s=300.0) as there:
        await there.check()
        there.engines[A].answers["/metrics"] = Hangs()
        async with running(there):
            await until(there.engines[A], "/health", 2)
            there.health.read_soon(there.engines[A].url)
            await until(there.engines[A], "/metrics", 2)
            there.health.read_soon(there.engines[A].url)
            await until(there.engines[A], "/health", 5)

            assert 2 == there.engines[A].times("/metrics")
            there.health.attend([], there.rules)  # its last reading ends with it


# ---- others to be checked


async def test_anyone_who_is_added_is_visited_at_once_and_anyone_who_left_is_not_asked_again() -> None:
    """A reload need not wait for the next interval; of those that stay nothing is forgotten."""
    async with ward({A: WELL, B: WELL}, interval_s=0.01) as there:
        a, b = there.targets
        there.health.attend([a], there.rules)
        async with running(there):
            await until(there.engines[A], "/health", 3)
            assert 0 == there.engines[B].times("/health")

            there.health.attend([b], there.rules)
            asked = there.engines[A].times("/health")
            await until(there.engines[B], "/health", 3)

            assert ["a", "b"] == there.up()
            assert asked + 1 >= there.engines[A].times("/health")


async def test_those_that_stay_are_not_disturbed() -> None:
    """Failures are counted across it, and what was read is not read again before its time."""
    async with ward({A: WELL}) as there:
        await there.check()
        there.engines[A].answers["/health"] = Page(status=500)
        await there.check()
        there.health.attend(there.targets, there.rules)

        assert [] == await there.check()
        assert 1 == there.engines[A].times("/metrics")


async def test_other_rules_hold_from_the_next_check_on() -> None:
    """A worker that is up stays up until they find it down."""
    async with ward({A: WELL}) as there:
        await there.check()
        there.health.attend(there.targets, replace(there.rules, path="/livez", failures_to_down=1))

        assert ["a"] == there.up()
        there.engines[A].answers["/livez"] = Page(status=500)
        assert [] == await there.check()


async def test_attending_to_others_leaves_no_task() -> None:
    """However often it is done."""
    async with ward({A: WELL, B: WELL}) as there, running(there):
        await until(there.engines[A], "/health", 1)
        before = visits()
        for i in range(100):
            there.health.attend(there.targets[i % 2 :], there.rules)
        there.health.attend(there.targets, there.rules)
        async with asyncio.timeout(60):
            while visits() > 2:  # those that were cancelled take some turns to end
                await asyncio.sleep(0.002)

        assert (2, 2) == (before, visits())


# ---- bookings


async def test_a_lost_booking_ends_with_its_lease(caplog: pytest.LogCaptureFixture) -> None:
    """It should not have been lost: the log says so, once for each, though two workers share the fleet."""
    caplog.set_level(logging.WARNING)
    async with ward({A: WELL, B: WELL}) as there:
        await there.check()
        book(there.fleet, a_request("abcd"), 0.0, on=A)
        there.clock.now = 601.0
        await there.check()

        assert ["a reservation on worker a was not released and has expired"] == caplog.messages
        assert [0, 0] == [worker.in_flight for worker in there.fleet]


async def test_bookings_are_looked_after_while_workers_hang() -> None:
    """No one's silence keeps a lease from its end."""
    async with ward({A: {"/health": Hangs(), "/metrics": Hangs()}}) as there, running(there):
        there.fleet.set_up(A, up=True)
        book(there.fleet, a_request("abcd"), 0.0, on=A)
        there.clock.now = 601.0
        async with asyncio.timeout(60):
            while any(worker.in_flight for worker in there.fleet):
                await asyncio.sleep(0.002)
