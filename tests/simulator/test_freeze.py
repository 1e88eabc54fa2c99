import asyncio

from simulator.freeze import Freeze


async def test_it_is_over_after_its_time() -> None:
    freeze, reported = Freeze(), asyncio.Event()
    freeze.begin(0.05, when_over=reported.set)
    assert freeze.is_on

    await asyncio.wait_for(freeze.wait_over(), 60)
    assert reported.is_set()
    assert not freeze.is_on


async def test_no_one_waits_where_nothing_stands_still() -> None:
    """Before it has begun, and after it was ended."""
    freeze, reported = Freeze(), asyncio.Event()
    await asyncio.wait_for(freeze.wait_over(), 60)
    freeze.begin(3600, when_over=reported.set)
    freeze.end()
    freeze.end()

    await asyncio.wait_for(freeze.wait_over(), 60)
    assert not reported.is_set()


async def test_another_one_takes_its_place() -> None:
    """The first no longer ends anything."""
    freeze, first, second = Freeze(), asyncio.Event(), asyncio.Event()
    freeze.begin(0.01, when_over=first.set)
    freeze.begin(0.05, when_over=second.set)

    await asyncio.wait_for(second.wait(), 60)
    assert not first.is_set()
