"""Following an engine over real sockets."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import pytest
import zmq.asyncio

from cache_index.event import Event, Tier
from gateway.workers.kv_events.loop_share import LoopShare
from gateway.workers.kv_events.replay_schedule import ReplayTimeouts
from gateway.workers.kv_events.sources import EventSource
from gateway.workers.kv_events.subscriber import Subscriber
from tests.fakes.event_publisher import EventPublisher, event_publisher
from tests.gateway.workers.kv_events.engines import Content, DictFeed
from tests.gateway.workers.kv_events.examples import batch, removed, stored, until

pytestmark = pytest.mark.e2e

HURRIED = ReplayTimeouts(answer_s=0.5, retry_s=0.05, settle_s=0.1, check_s=0.3, rebuild_s=0.3)


def holding(hashes: Iterable[int]) -> Content:
    return Counter({(block, Tier.GPU): 1 for block in hashes})


def a_subscriber(
    source: EventSource, feed: DictFeed, context: zmq.asyncio.Context, *, timeouts: ReplayTimeouts | None = None
) -> Subscriber:
    clock = time.monotonic
    return Subscriber(source, feed, clock=clock, wall_clock=lambda: 1000.25, pace=LoopShare(clock), timeouts=timeouts)


def source_of(publisher: EventPublisher, *, topic: str = "", replays: bool = True) -> EventSource:
    return EventSource(publisher.endpoint, publisher.replay_endpoint if replays else None, topic)


def at(source: EventSource, context: zmq.asyncio.Context) -> AbstractAsyncContextManager[EventPublisher]:
    """An engine where *source* says that there is one."""
    assert source.endpoint is not None
    assert source.replay_endpoint is not None
    return event_publisher(context, endpoint=source.endpoint, replay_endpoint=source.replay_endpoint)


@asynccontextmanager
async def running(subscriber: Subscriber) -> AsyncIterator[None]:
    """While it follows; at the end nothing of it is left."""
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(subscriber.run())
        try:
            yield
        finally:
            following.cancel()
    assert [] == [task for task in asyncio.all_tasks() if "Subscriber." in repr(task.get_coro())]


async def test_what_was_said_before_and_what_is_said_after(context: zmq.asyncio.Context) -> None:
    """The engine's ring reports the past, its publications the present."""
    feed = DictFeed()
    async with event_publisher(context) as engine:
        for block in range(5):
            engine.keep(batch(stored(block)))
        async with running(subscriber := a_subscriber(source_of(engine), feed, context)):
            await until(lambda: subscriber.trust == "live")
            await engine.publish(batch(stored(5), removed(0)))
            await until(lambda: subscriber.counters.batches == 6)

            assert holding(range(1, 6)) == feed.content
            assert ["catching_up", "live"] == feed.states
            assert 0.25 == subscriber.counters.lag_s
            assert 0 == engine.asked[0]


async def test_an_old_engine_answers_without_topic(context: zmq.asyncio.Context) -> None:
    """The engine is vLLM up to 0.25, which sends three frames."""
    feed = DictFeed()
    async with event_publisher(context, topic_in_replay=False, topic=b"kv@a@tiny", first_seq=1) as engine:
        engine.keep(batch(["BlockStored", [1], None, [3, 4], 2, None]))
        async with running(subscriber := a_subscriber(source_of(engine, topic="kv@a@tiny"), feed, context)):
            await until(lambda: subscriber.trust == "live")

            assert holding([1]) == feed.content


async def test_a_ring_that_has_rolled_over_gives_what_it_has(context: zmq.asyncio.Context) -> None:
    """A gateway that comes late knows a part, and says so."""
    feed = DictFeed()
    async with event_publisher(context, kept=3) as engine:
        for block in range(5):
            engine.keep(batch(stored(block)))
        async with running(subscriber := a_subscriber(source_of(engine), feed, context)):
            await until(lambda: subscriber.trust == "stale")

            assert holding([2, 3, 4]) == feed.content
            assert "partial" == subscriber.counters.doubt
            subscriber.vouch()
            assert "live" == subscriber.trust


async def test_ten_thousand_batches(context: zmq.asyncio.Context) -> None:
    """The whole ring of a vLLM, with the ROUTER that it had up to 0.32: what that drops is asked for again."""
    feed = DictFeed()
    async with event_publisher(context) as engine:
        for block in range(10_000):
            engine.keep(batch(stored(block)))
        async with running(subscriber := a_subscriber(source_of(engine), feed, context, timeouts=HURRIED)):
            await until(lambda: subscriber.trust == "live")

            assert holding(range(10_000)) == feed.content
            assert 0 == subscriber.counters.lost_batches


async def test_a_replay_that_drops_is_continued(context: zmq.asyncio.Context) -> None:
    """From where it stopped, if the end marker was dropped too."""
    feed = DictFeed()
    filling = "x" * 100_000
    async with event_publisher(context, replay_hwm=50) as engine:
        for block in range(200):
            engine.keep(batch(stored(block, session_id=filling)))
        async with running(subscriber := a_subscriber(source_of(engine), feed, context, timeouts=HURRIED)):
            await until(lambda: subscriber.trust == "live")

            assert holding(range(200)) == feed.content
            assert 0 == subscriber.counters.lost_batches


async def test_another_engine_at_the_same_address(context: zmq.asyncio.Context) -> None:
    """After a restart the cache is empty, and no one says so."""
    feed = DictFeed()
    async with AsyncExitStack() as former_life:
        engine = await former_life.enter_async_context(event_publisher(context))
        source = source_of(engine)
        async with running(subscriber := a_subscriber(source, feed, context, timeouts=HURRIED)):
            await until(lambda: subscriber.trust == "live")
            for block in range(3):
                await engine.publish(batch(stored(block)))
            await until(lambda: subscriber.counters.batches == 3)
            await former_life.aclose()
            async with at(source, context) as engine:
                for block in range(10, 15):
                    engine.keep(batch(stored(block), ts=2000.0))
                await until(lambda: feed.content == holding(range(10, 15)) and subscriber.trust == "live")

                assert 1 == subscriber.counters.restarts
                assert 2 == subscriber.counters.connections


async def test_an_engine_that_is_not_there_yet(context: zmq.asyncio.Context) -> None:
    """It is found when it comes."""
    feed = DictFeed()
    async with event_publisher(context) as engine:
        source = source_of(engine)
    async with running(subscriber := a_subscriber(source, feed, context, timeouts=HURRIED)):
        assert "untrusted" == subscriber.trust
        assert "not_connected" == subscriber.counters.doubt
        async with at(source, context) as engine:
            engine.keep(batch(stored(1)))
            await until(lambda: subscriber.trust == "live")

            assert holding([1]) == feed.content


async def test_without_replays_it_is_stale(context: zmq.asyncio.Context) -> None:
    """It hears what comes, and cannot know what came before."""
    feed = DictFeed()
    async with event_publisher(context) as engine:
        engine.keep(batch(stored(0)))
        async with running(subscriber := a_subscriber(source_of(engine, replays=False), feed, context)):
            await until(lambda: subscriber.counters.connections == 1)
            await engine.publish(batch(stored(1)))
            # The subscription takes a moment; the first may pass unheard.
            for block in range(2, 1000):
                if feed.content:
                    break
                await engine.publish(batch(stored(block)))
                await asyncio.sleep(0.01)
            await until(lambda: subscriber.trust == "stale")

            assert "unreplayed" == subscriber.counters.doubt
            assert [] == engine.asked


async def test_a_last_batch_that_was_not_heard_is_found(context: zmq.asyncio.Context) -> None:
    """Nothing follows it, so that only asking shows it."""
    feed = DictFeed()
    async with (
        event_publisher(context) as engine,
        running(subscriber := a_subscriber(source_of(engine), feed, context, timeouts=HURRIED)),
    ):
        await until(lambda: subscriber.trust == "live")
        engine.keep(batch(stored(1)))
        await until(lambda: feed.content)

        assert holding([1]) == feed.content
        assert "live" == subscriber.trust


async def test_a_gap_is_replayed_before_what_follows(context: zmq.asyncio.Context) -> None:
    """A removal that came first would have removed nothing."""
    feed = DictFeed()
    async with (
        event_publisher(context) as engine,
        running(subscriber := a_subscriber(source_of(engine), feed, context)),
    ):
        await until(lambda: subscriber.trust == "live")
        engine.keep(batch(stored(1, 2)))
        while not feed.content:
            await engine.publish(batch(removed(1)))
            await asyncio.sleep(0.02)

        assert holding([2]) == feed.content
        await until(lambda: subscriber.trust == "live")
        assert 0 == subscriber.counters.lost_batches


async def test_garbage_is_survived(context: zmq.asyncio.Context) -> None:
    """Frames that are not any, and payloads that are no batch; what is right goes on."""
    feed = DictFeed()
    async with (
        event_publisher(context) as engine,
        running(subscriber := a_subscriber(source_of(engine), feed, context)),
    ):
        await until(lambda: subscriber.trust == "live")
        await until(lambda: subscriber.counters.replays > 1)
        await engine.send([b"", b"short"])
        await engine.send([b"", b"short", b"x"])
        await engine.publish(b"\xc1\xff\x00")
        await engine.publish(batch(stored(1)))
        await until(lambda: feed.content)

        assert holding([1]) == feed.content
        assert (2, 1) == (subscriber.counters.malformed, subscriber.counters.undecodable)
        assert ("stale", "lost") == (subscriber.trust, subscriber.counters.doubt)


async def test_doubt_begins_again(context: zmq.asyncio.Context) -> None:
    """From the ring, which still has everything; so it is live again."""
    feed = DictFeed()
    async with (
        event_publisher(context) as engine,
        running(subscriber := a_subscriber(source_of(engine), feed, context)),
    ):
        engine.keep(batch(stored(1)))
        await until(lambda: subscriber.trust == "live")
        feed.content[99, Tier.GPU] = 1
        subscriber.doubt()
        assert "live" != subscriber.trust
        await until(lambda: subscriber.trust == "live")

        assert holding([1]) == feed.content
        assert 1 == subscriber.counters.rebuilds


async def test_another_topic_is_not_taken_for_silence(context: zmq.asyncio.Context) -> None:
    """The engine has batches, but under a name that is not the configured one: that is no empty cache."""
    feed = DictFeed()
    async with event_publisher(context, topic=b"kv@other@tiny") as engine:
        engine.keep(batch(stored(1)))
        source = source_of(engine, topic="kv@a@tiny")
        async with running(subscriber := a_subscriber(source, feed, context, timeouts=HURRIED)):
            await until(lambda: subscriber.trust == "stale")

            assert not feed.content
            assert subscriber.counters.other_topic > 0


class Stumbles(DictFeed):
    """Fails once."""

    def apply(self, events: Sequence[Event]) -> None:
        if not self.applied:
            self.applied.extend(events)
            raise RuntimeError("a fault of ours")
        super().apply(events)


async def test_a_fault_of_the_feed_does_not_end_it(
    context: zmq.asyncio.Context, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, without what the engine said, and all begins again."""
    feed = Stumbles()
    async with event_publisher(context) as engine:
        engine.keep(batch(stored(1)))
        with caplog.at_level(logging.ERROR):
            async with running(subscriber := a_subscriber(source_of(engine), feed, context, timeouts=HURRIED)):
                await until(lambda: subscriber.trust == "live" and feed.content)

        assert holding([1]) == feed.content
        assert "failed" in caplog.text


async def test_an_address_that_is_not_one(context: zmq.asyncio.Context, caplog: pytest.LogCaptureFixture) -> None:
    """It stays untrusted, and says why in the log."""
    with caplog.at_level(logging.ERROR):
        async with running(subscriber := a_subscriber(EventSource("nonsense://x"), DictFeed(), context)):
            await until(lambda: "nonsense://x" in caplog.text)

            assert "untrusted" == subscriber.trust


async def test_who_is_dialled_needs_an_address(context: zmq.asyncio.Context) -> None:
    """The gateway needs an address to be dialed."""
    with pytest.raises(ValueError, match="connects to the gateway"):
        a_subscriber(EventSource(None), DictFeed(), context)


async def test_a_flood_leaves_turns_to_others(context: zmq.asyncio.Context) -> None:
    """While a long replay is worked off, another task gets on."""
    feed = DictFeed()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += bool(feed.content)

    async with event_publisher(context) as engine:
        for block in range(200):
            engine.keep(batch(*(stored(64 * block + each) for each in range(64))))
        async with asyncio.TaskGroup() as tasks:
            other = tasks.create_task(others())
            async with running(subscriber := a_subscriber(source_of(engine), feed, context)):
                await until(lambda: subscriber.trust == "live")
            other.cancel()

    # 12,800 blocks take longer than five slices of 2 ms on any machine.
    assert 12_800 == feed.content.total()
    assert turns > 5
