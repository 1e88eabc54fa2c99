"""The lag of the event loop."""

import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from gateway.telemetry.loop_watch import LoopWatch


def samples(watch: LoopWatch) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(watch)
    found: list[Sample] = [sample for family in registry.collect() for sample in family.samples]
    return {
        (sample.name.removeprefix("warmgate_event_loop_lag_seconds"), *sample.labels.values()): sample.value
        for sample in found
    }


def result(*moments: float) -> Iterator[float]:
    """A clock that says these, one after the other, and ends the loop that asks for more."""
    yield from moments
    raise asyncio.CancelledError


async def looked(watch: LoopWatch) -> None:
    try:
        await watch.run()
    except asyncio.CancelledError:
        return


async def test_lateness_is_what_a_look_took_beyond_its_time() -> None:
    """Two looks, 3 ms and 1.5 s late; one that comes early by the clock's grain was not late."""
    moments = result(10.0, 10.003, 20.0, 21.5, 30.0, 29.999)
    watch = LoopWatch(clock=lambda: next(moments), every_s=0.0)
    await looked(watch)
    seen = samples(watch)

    assert 3.0 == seen["_count",]
    assert 1.503 == round(seen["_sum",], 6)
    assert (1.0, 1.0, 2.0) == tuple(seen["_bucket", bound] for bound in ("0.001", "0.0025", "0.005"))
    assert (2.0, 3.0) == (seen["_bucket", "1.0"], seen["_bucket", "2.5"])


@pytest.mark.e2e
async def test_the_loop_can_be_held_and_is_found_late() -> None:
    """A callback holds the loop until some time has passed."""
    loop = asyncio.get_running_loop()
    watch = LoopWatch(clock=loop.time, every_s=0.001)
    looking = loop.create_task(watch.run())

    def hold() -> None:
        until = loop.time() + 0.06
        while loop.time() < until:
            pass

    await asyncio.sleep(0)  # it looks
    loop.call_soon(hold)
    while not samples(watch)["_count",]:
        await asyncio.sleep(0)
    looking.cancel()

    assert samples(watch)["_sum",] > 0.05


def test_nothing_is_late_before_the_first_look() -> None:
    """The series are there from the start, so that a rate has something to begin from."""
    assert 0.0 == samples(LoopWatch(clock=lambda: 0.0))["_count",]
