"""Asking workers how they are."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import pytest

from cache_index import WorkerId
from gateway.health import Health, Patient
from routing.fleet import Fleet
from tests.gateway.examples import Clock
from tests.routing.examples import A, B, a_fleet, a_request, an_index, book

TIMEOUT_S = 0.1  # for engines that hang; long enough that a busy machine does not make others seem to


def metrics(*, started_at: float | None = 7.0, blocks: int | None = None) -> str:
    lines = [] if started_at is None else [f"process_start_time_seconds {started_at}"]
    if blocks is not None:
        lines.append(f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{blocks}"}} 1.0')
    return "\n".join(lines) + "\n"


@dataclass
class Engine:
    """What one worker answers; None: nothing at all."""

    status: int | None = 200
    exposition: str | None = metrics()
    refuses: bool = False
    asked: list[str] = field(default_factory=list)

    async def answer(self, path: str) -> httpx.Response:
        self.asked.append(path)
        if self.refuses:
            raise httpx.ConnectError("refused")
        if path == "/metrics":
            if self.exposition is None:
                await asyncio.Event().wait()
            return httpx.Response(200, text=self.exposition)
        if self.status is None:
            await asyncio.Event().wait()
        return httpx.Response(self.status or 0)


class Ward:
    """A fleet whose workers are taken to be down, and its health."""

    def __init__(self, engines: Mapping[WorkerId, Engine], **limits: Any) -> None:
        self.engines = {f"{worker}.test": engine for worker, engine in engines.items()}
        self.clock = Clock(0.0)
        self.index = an_index()
        self.fleet: Fleet = a_fleet(*engines, index=self.index)
        self.requests: list[httpx.Request] = []
        self.told_down: list[tuple[WorkerId, list[WorkerId]]] = []
        """Who was told to be down, and who was up then."""
        for worker in engines:
            self.fleet.set_up(worker, up=False)
        self.client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        settings: dict[str, Any] = {
            "path": "/health",
            "interval_s": 0.001,
            "timeout_s": 5.0,
            "failures_to_down": 2,
            "successes_to_up": 1,
            "metrics_interval_s": 5.0,
        } | limits
        self.health = Health(
            [
                Patient(worker, f"http://{worker}.test", self.fleet, "tiny", partial(self._note_down, worker))
                for worker in engines
            ],
            client=self.client,
            clock=self.clock,
            **settings,
        )

    def _note_down(self, worker: WorkerId) -> None:
        self.told_down.append((worker, [each.id for each in self.fleet if each.is_up]))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return await self.engines[request.url.host].answer(request.url.path)

    async def check(self) -> list[str]:
        """The workers that are up after one more check."""
        await self.health.check()
        return [worker.id for worker in self.fleet if worker.is_up]


MakeWard = Callable[..., Ward]


@pytest.fixture
async def ward() -> AsyncIterator[MakeWard]:
    wards: list[Ward] = []

    def make(engines: Mapping[WorkerId, Engine], **limits: Any) -> Ward:
        wards.append(Ward(engines, **limits))
        return wards[-1]

    yield make
    for each in wards:
        await each.client.aclose()


# ---- up and down


async def test_a_worker_is_up_once_it_was_checked(ward: MakeWard) -> None:
    """Up is proved, not presumed."""
    there = ward({A: Engine(), B: Engine(refuses=True)})

    assert [] == [worker.id for worker in there.fleet if worker.is_up]
    assert ["a"] == await there.check()


@pytest.mark.parametrize(
    ("status", "up"), [(200, True), (204, True), (301, True), (404, True), (500, False), (503, False)]
)
async def test_whatever_is_below_500_is_alive(ward: MakeWard, status: int, up: bool) -> None:
    """An engine without such a path answers 404, and lives."""
    assert (["a"] if up else []) == await ward({A: Engine(status)}).check()


@pytest.mark.parametrize("ill", [Engine(500), Engine(None), Engine(refuses=True)])
async def test_a_worker_is_down_after_failures_in_a_row(ward: MakeWard, ill: Engine) -> None:
    """One may be bad luck: an error status, silence, a refused connection."""
    there = ward({A: Engine()}, failures_to_down=3, timeout_s=TIMEOUT_S)
    await there.check()
    well = there.engines["a.test"]
    there.engines["a.test"] = ill

    assert [["a"], ["a"], []] == [await there.check() for _ in range(3)]
    there.engines["a.test"] = well
    assert ["a"] == await there.check()


async def test_that_a_worker_went_down_is_told_once(ward: MakeWard) -> None:
    """When the fleet knows it already, and not of a worker that never was up."""
    engine = Engine()
    there = ward({A: engine, B: Engine()}, failures_to_down=1)
    await there.check()
    engine.status = 500
    for _ in range(3):
        await there.check()

    assert [(A, [B])] == there.told_down


async def test_a_good_check_in_between_starts_the_count_anew(ward: MakeWard) -> None:
    """Only failures in a row count."""
    engine = Engine()
    there = ward({A: engine}, failures_to_down=2)
    ups = []
    for status in (200, 500, 200, 500, 200):
        engine.status = status
        ups.append(await there.check())

    assert [["a"]] * 5 == ups


async def test_a_worker_comes_up_after_good_checks_in_a_row(ward: MakeWard) -> None:
    """As many as are asked for."""
    engine = Engine()
    there = ward({A: engine}, successes_to_up=2)
    ups = []
    for status in (200, 500, 200, 200):
        engine.status = status
        ups.append(await there.check())

    assert [[], [], [], ["a"]] == ups


async def test_a_check_takes_no_longer_than_its_timeout(ward: MakeWard) -> None:
    """A worker that hangs is dead; it does not delay what is found of the others."""
    there = ward({A: Engine(None), B: Engine()}, timeout_s=TIMEOUT_S)
    async with asyncio.timeout(TIMEOUT_S * 2 + 0.5):
        up = await there.check()

    assert ["b"] == up


async def test_the_timeout_is_the_only_one(ward: MakeWard) -> None:
    """The client's own is five seconds: a longer one that was set would not be kept."""
    there = ward({A: Engine()}, timeout_s=30.0)
    await there.check()

    assert [{"connect": None, "read": None, "write": None, "pool": None}] * 2 == [
        request.extensions["timeout"] for request in there.requests
    ]


async def test_a_change_is_logged_once(ward: MakeWard, caplog: pytest.LogCaptureFixture) -> None:
    """An operator reads when a worker came and went, not that it is still there."""
    caplog.set_level(logging.INFO, "gateway.health")
    engine = Engine()
    there = ward({A: engine}, failures_to_down=1)
    for status in (200, 200, 500, 500):
        engine.status = status
        await there.check()

    assert ["worker a of model tiny is up", "worker a of model tiny is down"] == caplog.messages


async def test_it_checks_until_it_is_cancelled(ward: MakeWard) -> None:
    """Every interval, and whatever is answered."""
    engine = Engine()
    there = ward({A: engine}, interval_s=0.001)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(there.health.run())
        for status in (200, 500, 200):
            engine.status = status
            count = len(engine.asked)
            while len(engine.asked) < count + 3:
                await asyncio.sleep(0.001)
        running.cancel()

    assert running.cancelled()


# ---- what its metrics tell


async def test_the_capacity_is_learnt(ward: MakeWard) -> None:
    """How many blocks, and how many tokens in each: so much of what it was sent it can still hold."""
    there = ward({A: Engine(exposition=metrics(blocks=2048))})
    await there.check()
    (worker,) = there.fleet

    assert (2048, 16) == worker.engine_capacity


async def test_a_restart_empties_the_index(ward: MakeWard) -> None:
    """Another time of birth is another life; the worker need not even have been down."""
    engine = Engine(exposition=metrics(started_at=7.0))
    there = ward({A: engine}, metrics_interval_s=0.0)
    await there.check()
    book(there.fleet, a_request("abcd"), 0.0)
    await there.check()
    assert 4 == there.index.held(A)

    engine.exposition = metrics(started_at=8.0)
    await there.check()
    assert 0 == there.index.held(A)


async def test_a_restart_is_seen_when_the_worker_comes_back(ward: MakeWard) -> None:
    """Its metrics are read at once then, before their interval is over."""
    engine = Engine(exposition=metrics(started_at=7.0))
    there = ward({A: engine}, failures_to_down=1)
    await there.check()
    book(there.fleet, a_request("abcd"), 0.0)
    engine.refuses = True
    await there.check()
    engine.refuses, engine.exposition = False, metrics(started_at=8.0)
    await there.check()

    assert 0 == there.index.held(A)


@pytest.mark.parametrize("exposition", [None, "", "<html>", "process_start_time_seconds abc", metrics(started_at=None)])
async def test_metrics_that_do_not_tell_are_no_restart(ward: MakeWard, exposition: str | None) -> None:
    """A busy engine may be late with them: what it holds it still holds."""
    engine = Engine()
    there = ward({A: engine}, metrics_interval_s=0.0, timeout_s=TIMEOUT_S)
    await there.check()
    book(there.fleet, a_request("abcd"), 0.0)
    for text in (exposition, metrics()):
        engine.exposition = text
        await there.check()

    assert 4 == there.index.held(A)


async def test_metrics_are_read_less_often_than_health(ward: MakeWard) -> None:
    """Once when the worker comes up, then every five seconds."""
    engine = Engine()
    there = ward({A: engine})
    for now in (0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0):
        there.clock.now = now
        await there.check()

    assert 7 == engine.asked.count("/health")
    assert 3 == engine.asked.count("/metrics")


async def test_the_metrics_of_a_worker_that_is_down_are_not_read(ward: MakeWard) -> None:
    """There is nothing to be learnt."""
    engine = Engine(500)
    await ward({A: engine}).check()

    assert ["/health"] == engine.asked


async def test_a_worker_that_comes_up_between_two_readings_is_read_at_once(ward: MakeWard) -> None:
    """The others wait for their time."""
    late, early = Engine(500), Engine()
    there = ward({A: late, B: early})
    await there.check()
    late.status = 200
    there.clock.now = 1.0
    await there.check()

    assert [1, 1] == [engine.asked.count("/metrics") for engine in (late, early)]


# ---- bookings


async def test_a_lost_booking_ends_with_its_lease(ward: MakeWard, caplog: pytest.LogCaptureFixture) -> None:
    """It should not have been lost: the log says so, once for each, though two workers share the fleet."""
    there = ward({A: Engine(), B: Engine()})
    await there.check()
    book(there.fleet, a_request("abcd"), 0.0, on=A)
    there.clock.now = 601.0
    await there.check()

    assert ["a booking on a was never released; its lease has ended"] == caplog.messages
    assert [0, 0] == [worker.in_flight for worker in there.fleet]
