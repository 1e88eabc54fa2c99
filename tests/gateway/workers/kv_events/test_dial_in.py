"""Engines that dial us."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import zmq.asyncio

from gateway.workers.kv_events.connection import Link
from gateway.workers.kv_events.dial_in import DialIn, name_in
from gateway.workers.kv_events.loop_share import LoopShare
from gateway.workers.kv_events.sources import EventSource
from gateway.workers.kv_events.subscriber import Subscriber
from tests.fakes.event_publisher import EventPublisher, event_publisher
from tests.gateway.workers.kv_events.engines import DictFeed
from tests.gateway.workers.kv_events.examples import batch, stored, until
from tests.gateway.workers.kv_events.test_subscriber import HURRIED, Stumbles, holding, running

pytestmark = pytest.mark.e2e


class Hears:
    """Remembers what it is notified."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.messages: list[list[bytes]] = []
        self.to_do = 0

    def published(self, frames: list[bytes]) -> None:
        self.messages.append(frames)
        self.to_do += 2

    def linked(self, link: Link) -> None:
        self.links.append(link)

    def work(self) -> bool:
        self.to_do -= bool(self.to_do)
        return bool(self.to_do)

    @property
    def payloads(self) -> set[bytes]:
        return {frames[-1] for frames in self.messages}


@asynccontextmanager
async def dialled(context: zmq.asyncio.Context) -> AsyncIterator[tuple[DialIn, str]]:
    """One at a port that the system chose, with its address."""
    dial_in = DialIn("tcp://127.0.0.1:0", pace=LoopShare(time.monotonic))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(dial_in.run())
        try:
            await until(lambda: dial_in.bound)
            assert dial_in.bound is not None
            yield dial_in, dial_in.bound
        finally:
            running.cancel()
    assert dial_in.bound is None


async def say(engine: EventPublisher, payload: bytes, *hearers: Hears) -> None:
    """Until all have heard it: a subscription takes a moment to be in force."""
    async with asyncio.timeout(60):
        while not all(payload in hears.payloads for hears in hearers):
            await engine.publish(payload)
            await asyncio.sleep(0.01)


async def test_each_hears_its_own(context: zmq.asyncio.Context) -> None:
    """The whole topic selects it, or the name in it."""
    by_topic, by_name, no_one = Hears(), Hears(), Hears()
    async with (
        dialled(context) as (dial_in, address),
        event_publisher(context, dials=address, topic=b"any topic") as one,
        event_publisher(context, dials=address, topic=b"kv@10.0.0.7:8000@tiny") as other,
        event_publisher(context, dials=address, topic=b"kv@10.0.0.8@tiny") as stranger,
    ):
        with (
            dial_in.hear(by_topic, topic="any topic", replays=False),
            dial_in.hear(by_name, names=frozenset({"worker-b", "10.0.0.7:8000"}), replays=False),
            dial_in.hear(no_one, topic="any", replays=False),
        ):
            await say(one, b"1", by_topic)
            await say(other, b"2", by_name)
            while not dial_in.strangers:
                await stranger.publish(b"3")
                await asyncio.sleep(0.01)

            assert ({b"1"}, {b"2"}, set()) == (by_topic.payloads, by_name.payloads, no_one.payloads)
            assert ["kv@10.0.0.8@tiny"] == [*dial_in.strangers]
            assert [Link.UP] == by_topic.links
            assert [] == no_one.links
            await until(lambda: by_topic.to_do == by_name.to_do == 0)
        await say(one, b"4")
        await until(lambda: True)
    assert [Link.UP] == by_topic.links


async def test_ranks_may_share_a_topic(context: zmq.asyncio.Context) -> None:
    """Then the payload says whose it is."""
    zero, one = Hears(), Hears()
    async with dialled(context) as (dial_in, address), event_publisher(context, dials=address, topic=b"t") as engine:
        with (
            dial_in.hear(zero, topic="t", rank=0, replays=False),
            dial_in.hear(one, topic="t", rank=1, replays=False),
        ):
            for rank, hears in ((0, zero), (1, one)):
                await say(engine, batch(rank=rank), hears)
            await engine.publish(b"of nobody")
            await say(engine, batch(rank=1, ts=2.0), one)

            assert {batch(rank=0)} == zero.payloads
            assert {batch(rank=1), batch(rank=1, ts=2.0)} == one.payloads


async def test_who_can_ask_is_reported_of_every_end(context: zmq.asyncio.Context) -> None:
    """No one knows whose connection it was; who cannot ask is reported the last one only."""
    asks, listens = Hears(), Hears()
    async with dialled(context) as (dial_in, address), AsyncExitStack() as engines:
        with (
            dial_in.hear(asks, topic="a", replays=True),
            dial_in.hear(listens, topic="b", replays=False),
        ):
            stays = AsyncExitStack()
            one = await stays.enter_async_context(event_publisher(context, dials=address, topic=b"b"))
            other = await engines.enter_async_context(event_publisher(context, dials=address, topic=b"a"))
            await say(one, b"1", listens)
            await say(other, b"2", asks)
            assert [Link.UP] == asks.links
            await engines.aclose()
            await until(lambda: len(asks.links) == 3)
            await stays.aclose()
            await until(lambda: len(asks.links) == 4)

            assert [Link.UP, Link.DOWN, Link.UP, Link.DOWN] == asks.links
            assert [Link.UP, Link.DOWN] == listens.links


async def test_who_comes_later_is_linked(context: zmq.asyncio.Context) -> None:
    """If it can ask what it missed."""
    first, second = Hears(), Hears()
    async with dialled(context) as (dial_in, address), event_publisher(context, dials=address, topic=b"t") as engine:
        with dial_in.hear(first, topic="t", replays=True):
            await say(engine, b"1", first)
            with dial_in.hear(second, topic="t", replays=True):
                assert [Link.UP] == second.links
    # Who has left is notified nothing.
    assert [Link.UP] == first.links


def a_subscriber(
    engine: EventPublisher, feed: DictFeed, context: zmq.asyncio.Context, dial_in: DialIn, *, replays: bool = True
) -> Subscriber:
    """Return the subscriber of an engine that calls itself w."""
    clock = time.monotonic
    return Subscriber(
        EventSource(None, engine.replay_endpoint if replays else None),
        feed,
        clock=clock,
        wall_clock=lambda: 1000.0,
        pace=LoopShare(clock),
        dial_in=dial_in,
        names=frozenset({"w"}),
        timeouts=HURRIED,
    )


async def test_a_subscriber_that_is_dialled(context: zmq.asyncio.Context) -> None:
    """Replays it asks for itself."""
    feed = DictFeed()
    async with (
        dialled(context) as (dial_in, address),
        event_publisher(context, dials=address, topic=b"kv@w@tiny", first_seq=1) as engine,
    ):
        engine.keep(batch(stored(1)))
        async with running(subscriber := a_subscriber(engine, feed, context, dial_in)):
            await until(lambda: subscriber.trust == "live")
            await engine.publish(batch(stored(2)))
            await until(lambda: feed.content == holding([1, 2]))

            assert 2 == subscriber.counters.batches


async def test_a_fault_of_one_feed_is_no_one_elses(
    context: zmq.asyncio.Context, caplog: pytest.LogCaptureFixture
) -> None:
    """The others go on hearing, and that one begins again."""
    feed, hears = Stumbles(), Hears()
    async with (
        dialled(context) as (dial_in, address),
        event_publisher(context, dials=address, topic=b"kv@w@tiny") as engine,
    ):
        with caplog.at_level(logging.ERROR), dial_in.hear(hears, topic="kv@w@tiny", replays=False):
            async with running(subscriber := a_subscriber(engine, feed, context, dial_in, replays=False)):
                await say(engine, batch(stored(1)), hears)
                await until(lambda: feed.applied)
                for block in range(2, 1000):
                    if feed.content:
                        break
                    await say(engine, batch(stored(block)), hears)
                    await asyncio.sleep(0.05)
                await until(lambda: subscriber.trust == "stale")

                assert feed.content
                assert "a fault of ours" in caplog.text


async def test_an_address_that_is_taken(context: zmq.asyncio.Context, caplog: pytest.LogCaptureFixture) -> None:
    """It is tried again, and the log says which."""
    async with dialled(context) as (_, address):
        second = DialIn(address, pace=LoopShare(time.monotonic))
        with caplog.at_level(logging.ERROR):
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(second.run())
                await until(lambda: address in caplog.text)
                running.cancel()

        assert second.bound is None


def test_the_name_in_a_topic() -> None:
    """llm-d's convention; a model's name may have the sign in it."""
    assert "10.0.0.7:8000" == name_in("kv@10.0.0.7:8000@org/model@v1")
    assert name_in("kv@alone") is None
    assert name_in("other@a@b") is None
    assert name_in("") is None
