import asyncio
import gc

import httpx
import pytest

from benchmarks.watched_gateway import PATH, Turns, Watch, watched
from gateway.server.asgi import Message, Receive, Send


class Clocks:
    """Two clocks in nanoseconds that stand still until they are set."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.cpu_ms = 0.0

    def clock(self) -> int:
        return round(self.now_ms * 1e6)

    def cpu(self) -> int:
        return round(self.cpu_ms * 1e6)


def test_the_longest_turn_is_reported_by_both_clocks() -> None:
    """Four turns: one that waited, one that worked, and those of 2 ms and more are counted."""
    clocks = Clocks()
    watch = Watch(clock=clocks.clock, cpu=clocks.cpu)
    for now_ms, cpu_ms in ((0.5, 0.5), (10.5, 0.6), (13.0, 3.1), (13.1, 3.2)):
        clocks.now_ms, clocks.cpu_ms = now_ms, cpu_ms
        watch.turned()

    assert Turns(turns=4, watched_s=0.0131, longest_ms=10.0, longest_cpu_ms=2.5, long=2, long_cpu=1) == watch.take()


def test_each_time_of_watching_is_its_own() -> None:
    """What was before does not count again, nor does what was between the last turn and the question."""
    clocks = Clocks()
    watch = Watch(clock=clocks.clock, cpu=clocks.cpu)
    clocks.now_ms = 50.0
    watch.turned()
    clocks.now_ms = 60.0
    watch.take()
    clocks.now_ms = 61.0
    watch.turned()

    assert Turns(turns=1, watched_s=0.001, longest_ms=1.0) == watch.take()


def test_collections_are_counted() -> None:
    """With the longest."""
    clocks = Clocks()
    watch = Watch(clock=clocks.clock, cpu=clocks.cpu)
    for took_ms in (1.0, 7.0, 2.0):
        watch.collected("start", {})
        clocks.now_ms += took_ms
        watch.collected("stop", {})

    seen = watch.take()
    assert (3, 7.0) == (seen.collections, seen.longest_collection_ms)


@pytest.fixture
def _callbacks() -> "object":
    """The collector's, as they were."""
    before = [*gc.callbacks]
    yield
    gc.callbacks[:] = before


@pytest.mark.usefixtures("_callbacks")
async def test_a_loop_that_is_held_shows() -> None:
    """Whatever the application did; and its own answers are as they were."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        for _ in range(3_000_000):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    transport = httpx.ASGITransport(watched(app, Watch()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        await client.get(PATH)
        answer = (await client.get("/somewhere")).text
        await asyncio.sleep(0)
        seen = (await client.get(PATH)).json()

    assert "/somewhere" == answer
    assert seen["turns"] > 0
    assert seen["longest_ms"] >= seen["longest_cpu_ms"] * 0.5
    assert seen["longest_cpu_ms"] > 5
    assert seen["long"] >= 1
