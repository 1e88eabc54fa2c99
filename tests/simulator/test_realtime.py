import asyncio
import math
import time

import pytest

from engine_model.blocks import BlockPool
from engine_model.chunked import ChunkedEngine
from engine_model.engine import EngineEvent, Finished, FirstToken, RequestTooLarge, Token
from engine_model.request import EngineRequest
from simulator.realtime import EngineClock, Generation, GenerationAborted, RealtimeEngine


def engine(speed: float, blocks: int = 1000) -> RealtimeEngine:
    return RealtimeEngine(ChunkedEngine(BlockPool(blocks)), speed=speed)


async def everything(generation: Generation) -> list[EngineEvent]:
    events = []
    while not generation.is_finished:
        events += await generation.events()
    return events


def test_a_clock_keeps_its_time_when_its_rate_changes() -> None:
    """Two seconds at double pace, then one at half: 4.5 engine seconds."""
    wall = 100.0
    clock = EngineClock(lambda: wall, 2.0)
    wall = 102.0
    clock.set_rate(0.5)
    wall = 103.0

    assert 4.5 == clock.now()
    assert 1.0 == clock.wall_s_until(5.0)
    assert 0.0 == clock.wall_s_until(1.0)


@pytest.mark.parametrize("speed", [0, float("inf")])
@pytest.mark.e2e
async def test_as_fast_as_possible(speed: float) -> None:
    """An hour of engine time passes in no time, event by event."""
    began = time.monotonic()
    generation = engine(speed, blocks=100_000).submit([EngineRequest("r", 1_000_000, 1000, [])])
    events = await everything(generation)

    assert [FirstToken] + [Token] * 999 + [Finished] == [type(event) for event in events]
    assert events[-1].at > 100
    assert time.monotonic() - began < 50


@pytest.mark.e2e
async def test_events_come_in_real_time() -> None:
    """At a hundred times the speed, a prefill of 5 s and 100 tokens of 12 ms take about 62 ms."""
    began = time.monotonic()
    await everything(engine(100, blocks=10_000).submit([EngineRequest("r", 50_000, 101, [])]))
    took = time.monotonic() - began

    assert 0.061 < took < 5


async def test_several_requests_are_one_generation() -> None:
    """It is finished when the last of them is."""
    generation = engine(0).submit([EngineRequest("a", 10, 1, []), EngineRequest("b", 10, 50, [])])
    events = await everything(generation)

    assert ["a", "b"] == [event.request_id for event in events if isinstance(event, Finished)]


async def test_an_abort_wakes_the_waiter_and_frees_the_engine() -> None:
    """A task that waits for events is woken at once, and the engine is idle when its step has ended."""
    driver = engine(1)
    generation = driver.submit([EngineRequest("r", 1000, 1000, [])])
    asyncio.get_running_loop().call_later(0.01, generation.abort)
    with pytest.raises(GenerationAborted):
        await everything(generation)

    assert 0 == driver.load().running
    async with asyncio.timeout(50):
        while driver.load().kv_usage:
            await asyncio.sleep(0.01)
    generation.abort()


async def test_all_or_none_are_submitted() -> None:
    """When one of several requests is refused, the others do not stay behind."""
    driver = engine(1, blocks=10)
    with pytest.raises(RequestTooLarge):
        driver.submit([EngineRequest("fits", 10, 10, []), EngineRequest("does not", 1000, 10, [])])

    assert (0, 0) == (driver.load().running, driver.load().waiting)


async def test_closing_aborts_what_runs() -> None:
    """A closed driver leaves no waiter behind."""
    driver = engine(1)
    generation = driver.submit([EngineRequest("r", 1000, 1000, [])])
    driver.close()
    with pytest.raises(GenerationAborted):
        await generation.events()


@pytest.mark.e2e
async def test_slowing_down_holds_for_what_already_runs() -> None:
    """A token that was due in 12 s of the old pace comes at the new one."""
    driver = engine(1000)
    generation = driver.submit([EngineRequest("r", 10, 10_000, [])])
    await generation.events()
    driver.slow_down(1e6)
    await asyncio.sleep(0.05)
    before = driver.load().generation_tokens
    await asyncio.sleep(0.05)

    assert before == driver.load().generation_tokens
    generation.abort()


@pytest.mark.parametrize("speed", [0, 1000])
async def test_an_engine_that_is_stuck_computes_nothing_until_it_goes_on(speed: float) -> None:
    """What it has counted stays, requests are taken, and at the end all have all their tokens."""
    driver = engine(speed)
    first = driver.submit([EngineRequest("a", 10, 500, [])])
    seen = await first.events()
    driver.slow_down(math.inf)
    second = driver.submit([EngineRequest("b", 10, 20, [])])
    before = driver.load()
    for _ in range(50):
        await asyncio.sleep(0)
    after = driver.load()

    assert 0 < before.generation_tokens < 500
    assert before.generation_tokens == after.generation_tokens
    assert 2 == after.running + after.waiting

    driver.slow_down(1.0)
    seen += await everything(first) + await everything(second)

    assert 520 == driver.load().generation_tokens == sum(isinstance(event, FirstToken | Token) for event in seen)


def test_a_negative_speed_is_refused() -> None:
    """Time does not run backwards."""
    with pytest.raises(ValueError, match="speed must not be negative, got -1"):
        engine(-1)


async def test_every_generation_can_fail_at_once() -> None:
    """Each raises what it was failed with, and the engine has nothing left to do."""
    driven = engine(0.001)
    generations = [driven.submit([EngineRequest(name, 10, 50, [])]) for name in ("a", "b")]
    driven.fail(RuntimeError("gone"))
    for generation in generations:
        generation.abort()  # comes too late to change the reason
        with pytest.raises(RuntimeError, match="gone"):
            await generation.events()

    assert (0, 0) == (driven.load().running, driven.load().waiting)
    driven.close()
