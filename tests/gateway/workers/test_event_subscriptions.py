"""Subscriptions to engines, and what follows when predictions do not match."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from cache_index.residency import Residency
from gateway.workers.event_subscriptions import SILENT_TICKS, EventSubscriptions, SubscriptionTarget
from gateway.workers.kv_events.feed import Trust
from gateway.workers.kv_events.sources import EventSource, EventSources
from routing.fleet import Fleet
from routing.worker import Worker
from tests.fakes.intake import FakeIntake, FakeSubscription, some_counters
from tests.gateway.workers.kv_events.examples import until
from tests.routing.confirmed_examples import MODEL, TOKEN_HASHER, stored
from tests.routing.examples import BLOCK_BYTES, A, B, an_index

AT_A, AT_B = EventSource("tcp://a:5557"), EventSource("tcp://b:5557")
RANKS = EventSources((AT_A, replace(AT_A, rank=1)))
OF_A = SubscriptionTarget(A, "http://a", frozenset({("authorization", "Bearer k-1")}), MODEL, None)
OF_B = SubscriptionTarget(B, "http://b", frozenset(), MODEL, None)


def found() -> FakeIntake:
    return FakeIntake(
        {"http://a": EventSources((AT_A,)), "http://b": EventSources((AT_B,)), "http://c": EventSources((AT_B,))}
    )


@dataclass
class Stage:
    """Followers that ask again and compare only when a test says so."""

    intake: FakeIntake = field(default_factory=found)
    ask_interval_s: float = 3600.0
    tick_s: float = 3600.0

    def __post_init__(self) -> None:
        self.confirmed = Confirmed(Residency(TOKEN_HASHER, max_bytes=10_000_000))
        self.event_subscriptions = EventSubscriptions(
            self.confirmed, self.intake, ask_interval_s=self.ask_interval_s, tick_s=self.tick_s
        )
        self.fleet = self.another_fleet()

    def another_fleet(self) -> Fleet:
        """Return a fleet of workers a and b."""
        fleet = Fleet(an_index(), confirmed=self.confirmed, block_bytes=BLOCK_BYTES, prefill_tokens_per_s=1000.0)
        fleet.set_workers([A, B], 0.0)
        return fleet

    def attend(self, *subjects: SubscriptionTarget, fleets: Iterable[Fleet] = ()) -> None:
        self.event_subscriptions.attend({subject: [self.fleet, *fleets] for subject in subjects})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """At the end nothing of it is left."""
        before = asyncio.all_tasks()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.event_subscriptions.run())
            await until(lambda: self.intake.is_open)
            try:
                yield
            finally:
                running.cancel()
        assert (before, [], False) == (asyncio.all_tasks(), self.intake.running, self.intake.is_open)

    @asynccontextmanager
    async def following(
        self, *subjects: SubscriptionTarget, fleets: Iterable[Fleet] = ()
    ) -> AsyncIterator[FakeSubscription]:
        """The subscription to the last of *subjects*, which all are there."""
        self.attend(*subjects, fleets=fleets)
        async with self.running():
            await until(lambda: len(self.intake.running) == len(subjects))
            yield self.intake.subscriptions[-1]

    def held_and_trusted(self, worker: WorkerId) -> tuple[int, bool]:
        """Blocks that *worker*'s engine has reported, and whether that is relied on."""
        return self.confirmed.held(worker), state_of(self.fleet, worker).is_trusted


def state_of(fleet: Fleet, worker: WorkerId) -> Worker:
    return next(state for state in fleet if state.id == worker)


def lie(fleet: Fleet) -> None:
    """Enough of what was predicted of a was not there."""
    state_of(fleet, A).hit_accuracy.reported.learn(predicted=5000.0, reported=0.0)


def prove(fleet: Fleet) -> None:
    """Enough of what was predicted of a was there."""
    state_of(fleet, A).hit_accuracy.reported.learn(predicted=5000.0, reported=5000.0)


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


# ---- whom


async def test_who_is_attended_is_followed_and_no_one_else() -> None:
    """The engine says where it publishes; it is asked with the worker's key."""
    stage = Stage()
    async with stage.following(OF_A) as subscription:
        assert [("http://a", {"authorization": "Bearer k-1"})] == stage.intake.asked
        assert (AT_A, "a", "http://a") == (subscription.source, subscription.worker, subscription.url)
        assert ("untrusted", None) == (stage.event_subscriptions.state(A), stage.event_subscriptions.state(B))
        assert {A: OF_A} == stage.event_subscriptions.subjects()

        subscription.feed.apply([stored("abc")])
        subscription.feed.trusted("live")
        assert ("live", (3, True), (0, False)) == (
            stage.event_subscriptions.state(A),
            stage.held_and_trusted(A),
            stage.held_and_trusted(B),
        )


async def test_replays_are_known_once_the_engine_has_said_where_it_publishes() -> None:
    """Before that, and of a worker without a subscription, nothing is known."""
    replaying = EventSources((replace(AT_B, replay_endpoint="tcp://b:5558"),))
    stage = Stage(FakeIntake({"http://a": EventSources((AT_A,)), "http://b": replaying}))
    subscriptions = stage.event_subscriptions
    stage.attend(OF_A, OF_B)
    before = subscriptions.has_replay(A)
    async with stage.running():
        await until(lambda: len(stage.intake.running) == 2)
        after = subscriptions.has_replay(A), subscriptions.has_replay(B), subscriptions.has_replay(WorkerId("c"))

    assert (None, (False, True, None)) == (before, after)


async def test_no_one_is_asked_before_it_runs() -> None:
    """Settings are taken before there is an event loop."""
    stage = Stage()
    stage.attend(OF_A)

    assert ("untrusted", []) == (stage.event_subscriptions.state(A), stage.intake.asked)


async def test_where_the_settings_say_it_no_one_is_asked() -> None:
    """The engine may not know by which address it is reached."""
    stage = Stage()
    async with stage.following(replace(OF_A, sources=EventSources((AT_B,)))) as subscription:
        assert AT_B == subscription.source
        assert [] == stage.intake.asked


async def test_anyone_who_stays_keeps_its_subscription() -> None:
    """While others come and go; and its place in the mapping does not matter."""
    stage = Stage()
    async with stage.following(OF_A) as of_a:
        of_a.feed.apply([stored("abc")])
        of_a.feed.trusted("live")
        for subjects in ([OF_B, OF_A], [OF_A], [replace(OF_A)]):
            stage.attend(*subjects)
            await until(lambda subjects=subjects: len(stage.intake.running) == len(subjects))  # type: ignore[misc]

        assert [of_a] == stage.intake.running
        assert ["a", "b"] == [each.worker for each in stage.intake.subscriptions]
        assert (3, True) == stage.held_and_trusted(A)


async def test_who_is_not_attended_any_more_is_left() -> None:
    """What its engine reported counts no more, nor does what its stream reports while it is being ended."""
    stage = Stage()
    async with stage.following(OF_A) as subscription:
        subscription.feed.apply([stored("abc")])
        subscription.feed.trusted("live")
        stage.attend()
        assert (None, (0, False)) == (stage.event_subscriptions.state(A), stage.held_and_trusted(A))

        subscription.feed.restarted()
        subscription.feed.apply([stored("abc")])
        subscription.feed.trusted("live")
        assert (0, False) == stage.held_and_trusted(A)
        await until(lambda: not stage.intake.running)


@pytest.mark.parametrize(
    "changed",
    [
        replace(OF_A, url="http://c"),
        replace(OF_A, headers=frozenset()),
        replace(OF_A, model="big"),
        replace(OF_A, sources=EventSources((AT_B,))),
    ],
    ids=["url", "key", "model", "sources"],
)
async def test_who_changes_is_another(changed: SubscriptionTarget) -> None:
    """It is ended and begun, with what its engine reported forgotten; the former stream has no say in it."""
    stage = Stage()
    async with stage.following(OF_A) as former:
        former.feed.apply([stored("abc")])
        former.feed.trusted("live")
        stage.attend(changed)
        assert ("untrusted", (0, False)) == (stage.event_subscriptions.state(A), stage.held_and_trusted(A))

        await until(lambda: len(stage.intake.subscriptions) == 2 and not former.is_running)
        (of_a,) = stage.intake.running
        of_a.feed.trusted("live")
        former.feed.trusted("untrusted")
        assert ("live", changed.url) == (stage.event_subscriptions.state(A), of_a.url)
        assert stage.held_and_trusted(A)[1]


async def test_each_model_of_a_worker_is_reported() -> None:
    """Those that come are notified at once, those that go that no one relies on the engine for them any more."""
    stage = Stage()
    other = stage.another_fleet()
    async with stage.following(OF_A) as subscription:
        subscription.feed.trusted("live")
        stage.attend(OF_A, fleets=[other])
        both = [state_of(fleet, A).is_trusted for fleet in (stage.fleet, other)]
        stage.attend(OF_A)
        one = [state_of(fleet, A).is_trusted for fleet in (stage.fleet, other)]

    assert ([True, True], [True, False]) == (both, one)


def test_the_key_is_in_no_text() -> None:
    """A target in the log reveals no secret."""
    assert "k-1" not in repr(OF_A)


# ---- where


@pytest.mark.parametrize(
    ("sources", "why"),
    [
        (None, "does not report where it publishes KV events"),
        (EventSources(()), "does not publish KV events"),
        (RANKS, "has 2 data-parallel ranks behind one address (set ranks: 2 for this worker)"),
    ],
)
async def test_without_one_source_it_is_asked_again_and_the_log_says_so_once(
    sources: EventSources | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Until there is one: it may have been starting."""
    stage = Stage(FakeIntake({"http://a": sources}), ask_interval_s=0.0)
    caplog.set_level(logging.INFO, logger="gateway")
    stage.attend(OF_A)
    async with stage.running():
        await until(lambda: len(stage.intake.asked) >= 5)
        assert ([], "untrusted", {}) == (
            stage.intake.subscriptions,
            stage.event_subscriptions.state(A),
            stage.event_subscriptions.counters(),
        )
        assert [("WARNING", f"worker a {why}; its cache contents are predicted instead")] == said(caplog)

        stage.intake.found["http://a"] = EventSources((AT_A,))
        await until(lambda: stage.intake.running)
        assert ("INFO", "worker a publishes KV events at tcp://a:5557") == said(caplog)[-1]


async def test_who_cannot_be_subscribed_to_does_not_hurt_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """The settings have an engine that dials, and no address for that."""
    stage = Stage()
    stage.attend(replace(OF_A, sources=EventSources((EventSource(None),))), OF_B)
    async with stage.running():
        await until(lambda: stage.intake.running)
        stage.event_subscriptions.compare()

        assert ["b"] == [each.worker for each in stage.intake.running]
        assert [
            (
                "ERROR",
                "cannot subscribe to the KV events of worker a: the engine connects to the gateway, but kv_events.bind "
                "is not set",
            )
        ] == [each for each in said(caplog) if each[0] == "ERROR"]


# ---- silence


async def test_an_engine_that_is_silent_for_long_is_asked_again() -> None:
    """It may have moved; what it reported is forgotten with its stream, whose last words count no more."""
    stage = Stage()
    async with stage.following(OF_A) as former:
        former.feed.apply([stored("abc")])
        former.counters = some_counters(trust="untrusted", doubt="not_connected")
        for _ in range(SILENT_TICKS - 1):
            stage.event_subscriptions.compare()
        assert 1 == len(stage.intake.asked)

        stage.intake.found["http://a"] = EventSources((AT_B,))
        stage.event_subscriptions.compare()
        await until(lambda: len(stage.intake.subscriptions) == 2 and not former.is_running)
        (of_a,) = stage.intake.running
        assert (AT_B, 2, (0, False)) == (of_a.source, len(stage.intake.asked), stage.held_and_trusted(A))

        of_a.feed.trusted("live")
        former.feed.trusted("untrusted")
        assert (0, True) == stage.held_and_trusted(A)


async def test_a_connection_begins_the_count_again() -> None:
    """Only silence without an end is a sign of anything."""
    stage = Stage()
    async with stage.following(OF_A) as subscription:
        for _ in range(3):
            subscription.counters = some_counters(doubt="not_connected")
            for _ in range(SILENT_TICKS - 1):
                stage.event_subscriptions.compare()
            subscription.counters = some_counters(doubt="partial")
            stage.event_subscriptions.compare()

        assert ([subscription], 1) == (stage.intake.running, len(stage.intake.asked))


async def test_who_stands_in_the_settings_is_not_asked_again() -> None:
    """ZMQ goes on trying to connect."""
    stage = Stage()
    async with stage.following(replace(OF_A, sources=EventSources((AT_A,)))) as subscription:
        subscription.counters = some_counters(doubt="not_connected")
        for _ in range(2 * SILENT_TICKS):
            stage.event_subscriptions.compare()

        assert ([subscription], []) == (stage.intake.running, stage.intake.asked)


async def test_who_says_the_same_again_is_not_in_the_log_again(caplog: pytest.LogCaptureFixture) -> None:
    """A port behind a firewall would else fill it."""
    caplog.set_level(logging.INFO, logger="gateway")
    stage = Stage()
    async with stage.following(OF_A):
        for times in (1, 2, 3):
            stage.intake.running[0].counters = some_counters(doubt="not_connected")
            for _ in range(SILENT_TICKS):
                stage.event_subscriptions.compare()
            await until(lambda times=times: len(stage.intake.subscriptions) == times + 1)  # type: ignore[misc]
            await until(lambda: len(stage.intake.running) == 1)

    assert [("INFO", "worker a publishes KV events at tcp://a:5557")] == said(caplog)


# ---- predictions


async def test_an_index_that_lies_is_doubted(caplog: pytest.LogCaptureFixture) -> None:
    """Once for all models of the worker, whichever noticed; its accuracy begins again with it."""
    stage = Stage()
    other = stage.another_fleet()
    async with stage.following(OF_A, fleets=[other]) as subscription:
        subscription.feed.trusted("live")
        lie(stage.fleet)
        lie(other)
        stage.event_subscriptions.compare()
        stage.event_subscriptions.compare()

    assert ["doubt"] == subscription.done
    assert [False, False] == [state_of(fleet, A).hit_accuracy.reported.is_unreliable for fleet in (stage.fleet, other)]
    text = "worker a lacks blocks that its engine reported; its index is rebuilt"
    assert [("WARNING", text)] == said(caplog)


async def test_only_the_worker_that_lies_is_doubted() -> None:
    """Other workers are not."""
    stage = Stage()
    async with stage.following(OF_A, OF_B):
        for subscription in stage.intake.running:
            subscription.feed.trusted("live")
        lie(stage.fleet)
        stage.event_subscriptions.compare()

        assert {"a": ["doubt"], "b": []} == {each.worker: each.done for each in stage.intake.running}


@pytest.mark.parametrize("state", ["catching_up", "stale", "untrusted"])
async def test_who_is_not_live_need_not_be_doubted(state: Trust) -> None:
    """It is not relied on as it is; what is known of its accuracy stays."""
    stage = Stage()
    async with stage.following(OF_A) as subscription:
        subscription.feed.trusted(state)
        lie(stage.fleet)
        stage.event_subscriptions.compare()

    assert ([], True) == (subscription.done, state_of(stage.fleet, A).hit_accuracy.reported.is_unreliable)


@pytest.mark.parametrize(
    ("state", "done"), [("stale", ["vouch"]), ("live", []), ("catching_up", []), ("untrusted", [])]
)
async def test_a_stale_stream_that_matches_is_vouched_for(state: Trust, done: list[str]) -> None:
    """What is missing of it was evicted long ago, as it seems. The others need it not, or cannot be heard."""
    stage = Stage()
    async with stage.following(OF_A) as subscription:
        subscription.feed.trusted(state)
        prove(stage.fleet)
        stage.event_subscriptions.compare()

    assert done == subscription.done


async def test_what_one_model_proves_is_nothing_while_another_is_lied_to() -> None:
    """A cache has to be right for all."""
    stage = Stage()
    other = stage.another_fleet()
    async with stage.following(OF_A, fleets=[other]) as subscription:
        subscription.feed.trusted("stale")
        prove(stage.fleet)
        lie(other)
        stage.event_subscriptions.compare()

    assert [] == subscription.done


async def test_it_compares_by_itself_while_it_runs() -> None:
    """Every tick."""
    stage = Stage(tick_s=0.001)
    async with stage.following(OF_A) as subscription:
        subscription.feed.trusted("live")
        lie(stage.fleet)
        await until(lambda: subscription.done)

    assert ["doubt"] == subscription.done


# ---- figures, and the end


async def test_what_the_streams_came_to_can_be_read() -> None:
    """Only workers whose engines have said where they publish have some."""
    stage = Stage()
    stage.intake.found["http://b"] = None
    stage.attend(OF_A, OF_B)
    async with stage.running():
        await until(lambda: stage.intake.running and len(stage.intake.asked) == 2)
        (of_a,) = stage.intake.running
        of_a.counters = some_counters(blocks={"stored": 7, "removed": 2})

        assert {A: of_a.counters} == stage.event_subscriptions.counters()
        assert (7, 0, 0) == tuple(stage.event_subscriptions.blocks_heard(each) for each in (A, B, WorkerId("unknown")))


async def test_who_comes_after_the_end_is_not_followed() -> None:
    """Settings may change while the gateway stops."""
    stage = Stage()
    async with stage.following(OF_A):
        pass
    stage.attend(OF_A, OF_B)
    await asyncio.sleep(0)

    assert 1 == len(stage.intake.asked)


async def test_it_can_be_cancelled_while_it_asks() -> None:
    """An engine that never answers holds nothing up."""
    stage = Stage(FakeIntake({}), ask_interval_s=3600.0)
    stage.attend(OF_A, OF_B)
    async with stage.running():
        await until(lambda: len(stage.intake.asked) == 2)


async def test_everybody_is_heard_from_the_beginning_when_what_was_reported_is_of_no_use() -> None:
    """They have new subscriptions; late events of the former ones are ignored."""
    stage = Stage()
    async with stage.following(OF_A, OF_B):
        of_a = next(each for each in stage.intake.running if each.worker == "a")
        of_a.feed.apply([stored("abc")])
        of_a.feed.trusted("live")
        stage.event_subscriptions.restart_all()
        await until(lambda: len(stage.intake.running) == 2 and len(stage.intake.subscriptions) == 4)

        assert of_a not in stage.intake.running
        assert (0, False) == stage.held_and_trusted(A)

        of_a.feed.apply([stored("abc")])

        assert (0, False) == stage.held_and_trusted(A)


# ---- data-parallel ranks


async def test_each_rank_is_followed_by_its_own_stream() -> None:
    """Its engine, which may dial, calls it by the name of the address."""
    stage = Stage(FakeIntake({"http://a": RANKS}))
    ranks = [replace(OF_A, worker=worker, rank=rank, name="gpu") for rank, worker in enumerate((A, B))]
    async with stage.following(*ranks):
        assert [(0, "gpu"), (1, "gpu")] == [(each.source.rank, each.worker) for each in stage.intake.subscriptions]


async def test_a_rank_whose_stream_is_not_reported_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """The stream of another rank is not its own."""
    stage = Stage(FakeIntake({"http://a": EventSources((AT_A,))}), ask_interval_s=0.0)
    caplog.set_level(logging.INFO, logger="gateway")
    stage.attend(replace(OF_A, rank=1))
    async with stage.running():
        await until(lambda: len(stage.intake.asked) >= 3)

        assert [] == stage.intake.subscriptions
        assert [("WARNING", "worker a does not publish KV events; its cache contents are predicted instead")] == said(
            caplog
        )
