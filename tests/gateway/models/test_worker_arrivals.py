"""Waking requests that wait for a worker."""

import asyncio

from gateway.models.worker_arrivals import WorkerArrivals


async def test_an_announcement_wakes_all_who_wait() -> None:
    arrivals = WorkerArrivals()
    waiting = [asyncio.ensure_future(arrivals.next()) for _ in range(3)]
    await asyncio.sleep(0)

    assert 3 == arrivals.waiting

    arrivals.announce()
    await asyncio.gather(*waiting)

    assert 0 == arrivals.waiting


async def test_who_hears_nothing_looks_again_by_itself() -> None:
    """A breaker closes by time alone, and no one announces that."""
    await asyncio.wait_for(WorkerArrivals().next(), timeout=10)


def test_it_is_known_since_when_no_one_is_there() -> None:
    """Since the first who asked after somebody had come."""
    arrivals = WorkerArrivals()

    assert [10.0, 10.0] == [arrivals.deserted_since(10.0), arrivals.deserted_since(12.0)]

    arrivals.announce()

    assert 13.0 == arrivals.deserted_since(13.0)


async def test_who_leaves_waits_no_more() -> None:
    arrivals = WorkerArrivals()
    waiting = asyncio.ensure_future(arrivals.next())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])

    assert 0 == arrivals.waiting
