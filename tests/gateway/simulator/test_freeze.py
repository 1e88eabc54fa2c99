import asyncio

from gateway.simulator.freeze import Freeze


async def test_it_is_over_after_its_time() -> None:
    """Who waits goes on, and whoever began it is told."""
    freeze, told = Freeze(), asyncio.Event()
    freeze.begin(0.05, when_over=told.set)
    assert freeze.is_on

    await asyncio.wait_for(freeze.wait_over(), 10)
    assert told.is_set()
    assert not freeze.is_on


async def test_nobody_waits_where_nothing_stands_still() -> None:
    """Before it has begun, and after it was ended."""
    freeze, told = Freeze(), asyncio.Event()
    await asyncio.wait_for(freeze.wait_over(), 10)
    freeze.begin(3600, when_over=told.set)
    freeze.end()
    freeze.end()

    await asyncio.wait_for(freeze.wait_over(), 10)
    assert not told.is_set()


async def test_another_one_takes_its_place() -> None:
    """The first no longer ends anything."""
    freeze, first, second = Freeze(), asyncio.Event(), asyncio.Event()
    freeze.begin(0.01, when_over=first.set)
    freeze.begin(0.05, when_over=second.set)

    await asyncio.wait_for(second.wait(), 10)
    assert not first.is_set()
