"""Sharing the event loop."""

import asyncio
import re
from collections.abc import Callable

from gateway.workers.kv_events.loop_share import LoopShare
from tests.gateway.examples import Clock


def work(clock: Clock, log: list[str], name: str, *, pieces: int, each_s: float) -> Callable[[], bool]:
    """Return work of so many *pieces*; each takes time by *clock*."""
    left = pieces

    def piece() -> bool:
        nonlocal left
        if left == 0:
            return False
        left -= 1
        clock.now += each_s
        log.append(name)
        return True

    return piece


async def others(log: list[str]) -> None:
    while True:
        await asyncio.sleep(0)
        log.append("-")


async def drained(pace: LoopShare, log: list[str], *works: Callable[[], bool]) -> str:
    """What happened, with a stroke where the loop turned, once or more."""
    async with asyncio.TaskGroup() as tasks:
        other = tasks.create_task(others(log))
        await asyncio.gather(*(pace.drain(one) for one in works))
        other.cancel()
    return re.sub("-+", "-", "".join(log)).strip("-")


async def test_the_loop_turns_after_each_slice() -> None:
    """Here a slice is two pieces."""
    clock, log = Clock(), list[str]()

    assert "aa-aa-aa" == await drained(LoopShare(clock, slice_s=2.0), log, work(clock, log, "a", pieces=6, each_s=1.0))


async def test_streams_take_turns() -> None:
    """Anyone who waits comes before who has just had one; the first does not know yet that somebody waits."""
    clock, log = Clock(), list[str]()
    works = (work(clock, log, name, pieces=6, each_s=1.0) for name in "ab")

    assert "aa-aa-bb-aa-bb-bb" == await drained(LoopShare(clock, slice_s=2.0), log, *works)


async def test_little_is_done_at_once() -> None:
    """Several streams together do not exceed a slice."""
    clock, log = Clock(), list[str]()
    works = (work(clock, log, name, pieces=1, each_s=1.0) for name in "abc")

    assert "ab-c" == await drained(LoopShare(clock, slice_s=2.0), log, *works)


async def test_what_takes_longer_than_a_slice_is_paid_back() -> None:
    """A piece of three slices is followed by three turns of the loop: events never have more than their share."""
    clock, log = Clock(), list[str]()
    pace = LoopShare(clock, slice_s=2.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count())
        await asyncio.sleep(0)
        before = turns
        await pace.drain(work(clock, log, "a", pieces=1, each_s=6.0))
        counting.cancel()

    assert 3 <= turns - before


async def test_the_longest_slice_is_known() -> None:
    """One piece can be longer than a slice."""
    clock, log = Clock(), list[str]()
    pace = LoopShare(clock, slice_s=2.0)
    await pace.drain(work(clock, log, "a", pieces=2, each_s=7.0))

    assert 7.0 == pace.longest_s
