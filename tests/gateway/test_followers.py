"""Whose streams are followed, from when to when, and what is done when predictions do not come true."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from cache_index.residency import Residency
from gateway.followers import SILENT_TICKS, Followers, Subject
from gateway.kv_events.feed import Trust
from gateway.kv_events.sources import Source, Sources
from routing.fleet import Fleet
from routing.worker import Worker
from tests.fakes.intake import FakeIntake, FakeSubscription, some_counters
from tests.gateway.kv_events.examples import until
from tests.routing.confirmed_examples import MODEL, TOKEN_HASHER, stored
from tests.routing.examples import BLOCK_BYTES, A, B, an_index

AT_A, AT_B = Source("tcp://a:5557"), Source("tcp://b:5557")
RANKS = Sources((AT_A, replace(AT_A, rank=1)))
OF_A = Subject(A, "http://a", frozenset({("authorization", "Bearer k-1")}), MODEL, None)
OF_B = Subject(B, "http://b", frozenset(), MODEL, None)


def found() -> FakeIntake:
    return FakeIntake({"http://a": Sources((AT_A,)), "http://b": Sources((AT_B,)), "http://c": Sources((AT_B,))})


@dataclass
class Stage:
    """Followers that ask again and compare only when a test says so."""

    intake: FakeIntake = field(default_factory=found)
    ask_interval_s: float = 3600.0
    tick_s: float = 3600.0

    def __post_init__(self) -> None:
        self.confirmed = Confirmed(Residency(TOKEN_HASHER, max_bytes=10_000_000))
        self.followers = Followers(self.confirmed, self.intake, ask_interval_s=self.ask_interval_s, tick_s=self.tick_s)
        self.fleet = self.another_fleet()

    def another_fleet(self) -> Fleet:
        """Of workers a and b."""
        fleet = Fleet(an_index(), confirmed=self.confirmed, block_bytes=BLOCK_BYTES, prefill_tokens_per_s=1000.0)
        fleet.set_workers([A, B], 0.0)
        return fleet

    def attend(self, *subjects: Subject, fleets: Iterable[Fleet] = ()) -> None:
        self.followers.attend({subject: [self.fleet, *fleets] for subject in subjects})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """At the end nothing of it is left."""
        before = asyncio.all_tasks()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.followers.run())
            await until(lambda: self.intake.is_open)
            try:
                yield
            finally:
                running.cancel()
        assert (before, [], False) == (asyncio.all_tasks(), self.intake.running, self.intake.is_open)

    @asynccontextmanager
    async def following(self, *subjects: Subject, fleets: Iterable[Fleet] = ()) -> AsyncIterator[FakeSubscription]:
        """The subscription to the last of *subjects*, which all are there."""
        self.attend(*subjects, fleets=fleets)
        async with self.running():
            await until(lambda: len(self.intake.running) == len(subjects))
            yield self.intake.subscriptions[-1]

    def told(self, worker: WorkerId) -> tuple[int, bool]:
        """Blocks that *worker*'s engine has told of, and whether that is relied on."""
        return self.confirmed.held(worker), state_of(self.fleet, worker).is_trusted


def state_of(fleet: Fleet, worker: WorkerId) -> Worker:
    return next(state for state in fleet if state.id == worker)


def lie(fleet: Fleet) -> None:
    """Enough of what was predicted of a was not there."""
    state_of(fleet, A).told_accuracy.learn(predicted=5000.0, reported=0.0)


def prove(fleet: Fleet) -> None:
    """Enough of what was predicted of a was there."""
    state_of(fleet, A).told_accuracy.learn(predicted=5000.0, reported=5000.0)


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


# ---- whom


async def test_who_is_attended_is_followed_and_nobody_else() -> None:
    """By what its engine says, which is asked with the worker's key."""
    stage = Stage()
    async with stage.following(OF_A) as subscription:
        assert [("http://a", {"authorization": "Bearer k-1"})] == stage.intake.asked
        assert (AT_A, "a", "http://a") == (subscription.source, subscription.worker, subscription.url)
        assert ("untrusted", None) == (stage.followers.state(A), stage.followers.state(B))
        assert {A: OF_A} == stage.followers.subjects()

        subscription.feed.apply([stored("abc")])
        subscription.feed.trusted("live")
        assert ("live", (3, True), (0, False)) == (stage.followers.state(A), stage.told(A), stage.told(B))


async def test_nobody_is_asked_before_it_runs() -> None:
    """Settings are taken before there is an event loop."""
    stage = Stage()
    stage.attend(OF_A)

    assert ("untrusted", []) == (stage.followers.state(A), stage.intake.asked)


async def test_where_the_settings_say_it_nobody_is_asked() -> None:
    """The engine may not know by which address it is reached."""
    stage = Stage()
    async with stage.following(replace(OF_A, sources=Sources((AT_B,)))) as subscription:
        assert AT_B == subscription.source
        assert [] == stage.intake.asked


async def test_whoever_stays_keeps_its_subscription() -> None:
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
        assert (3, True) == stage.told(A)


async def test_who_is_not_attended_any_more_is_left() -> None:
    """What its engine told counts no more, nor does what its stream tells while it is being ended."""
    stage = Stage()
    async with stage.following(OF_A) as subscription:
        subscription.feed.apply([stored("abc")])
        subscription.feed.trusted("live")
        stage.attend()
        assert (None, (0, False)) == (stage.followers.state(A), stage.told(A))

        subscription.feed.restarted()
        subscription.feed.apply([stored("abc")])
        subscription.feed.trusted("live")
        assert (0, False) == stage.told(A)
        await until(lambda: not stage.intake.running)


@pytest.mark.parametrize(
    "changed",
    [
        replace(OF_A, url="http://c"),
        replace(OF_A, headers=frozenset()),
        replace(OF_A, model="big"),
        replace(OF_A, sources=Sources((AT_B,))),
    ],
    ids=["url", "key", "model", "sources"],
)
async def test_who_changes_is_another(changed: Subject) -> None:
    """It is ended and begun, with what its engine told forgotten; the former stream has no say in it."""
    stage = Stage()
    async with stage.following(OF_A) as former:
        former.feed.apply([stored("abc")])
        former.feed.trusted("live")
        stage.attend(changed)
        assert ("untrusted", (0, False)) == (stage.followers.state(A), stage.told(A))

        await until(lambda: len(stage.intake.subscriptions) == 2 and not former.is_running)
        (of_a,) = stage.intake.running
        of_a.feed.trusted("live")
        former.feed.trusted("untrusted")
        assert ("live", changed.url) == (stage.followers.state(A), of_a.url)
        assert stage.told(A)[1]


async def test_each_model_of_a_worker_is_told() -> None:
    """Those that come are told at once, those that go that nobody relies on the engine for them any more."""
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
    """Who logs a subject logs no secret."""
    assert "k-1" not in repr(OF_A)


# ---- where


@pytest.mark.parametrize(
    ("sources", "why"),
    [
        (None, "does not say where it tells of its cache"),
        (Sources(()), "does not tell of its cache"),
        (RANKS, "has 2 data-parallel ranks behind one address, and the settings do not say so (ranks)"),
    ],
)
async def test_without_one_source_it_is_asked_again_and_the_log_says_so_once(
    sources: Sources | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Until there is one: it may have been starting."""
    stage = Stage(FakeIntake({"http://a": sources}), ask_interval_s=0.0)
    caplog.set_level(logging.INFO, logger="gateway")
    stage.attend(OF_A)
    async with stage.running():
        await until(lambda: len(stage.intake.asked) >= 5)
        assert ([], "untrusted", {}) == (
            stage.intake.subscriptions,
            stage.followers.state(A),
            stage.followers.counters(),
        )
        assert [("WARNING", f"worker a {why}: what was sent there has to do")] == said(caplog)

        stage.intake.found["http://a"] = Sources((AT_A,))
        await until(lambda: stage.intake.running)
        assert ("INFO", "worker a tells of its cache at tcp://a:5557") == said(caplog)[-1]


async def test_who_cannot_be_subscribed_to_does_not_hurt_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """The settings have an engine that dials, and no address for that."""
    stage = Stage()
    stage.attend(replace(OF_A, sources=Sources((Source(None),))), OF_B)
    async with stage.running():
        await until(lambda: stage.intake.running)
        stage.followers.compare()

        assert ["b"] == [each.worker for each in stage.intake.running]
        assert [("ERROR", "worker a is not listened to: the engine dials in, and no address is set for that")] == [
            each for each in said(caplog) if each[0] == "ERROR"
        ]


# ---- silence


async def test_an_engine_that_is_silent_for_long_is_asked_again() -> None:
    """It may have moved; what it told is forgotten with its stream, whose last words count no more."""
    stage = Stage()
    async with stage.following(OF_A) as former:
        former.feed.apply([stored("abc")])
        former.counters = some_counters(trust="untrusted", doubt="not_connected")
        for _ in range(SILENT_TICKS - 1):
            stage.followers.compare()
        assert 1 == len(stage.intake.asked)

        stage.intake.found["http://a"] = Sources((AT_B,))
        stage.followers.compare()
        await until(lambda: len(stage.intake.subscriptions) == 2 and not former.is_running)
        (of_a,) = stage.intake.running
        assert (AT_B, 2, (0, False)) == (of_a.source, len(stage.intake.asked), stage.told(A))

        of_a.feed.trusted("live")
        former.feed.trusted("untrusted")
        assert (0, True) == stage.told(A)


async def test_a_connection_begins_the_count_anew() -> None:
    """Only silence without an end is a sign of anything."""
    stage = Stage()
    async with stage.following(OF_A) as subscription:
        for _ in range(3):
            subscription.counters = some_counters(doubt="not_connected")
            for _ in range(SILENT_TICKS - 1):
                stage.followers.compare()
            subscription.counters = some_counters(doubt="partial")
            stage.followers.compare()

        assert ([subscription], 1) == (stage.intake.running, len(stage.intake.asked))


async def test_who_stands_in_the_settings_is_not_asked_again() -> None:
    """ZMQ goes on trying to connect."""
    stage = Stage()
    async with stage.following(replace(OF_A, sources=Sources((AT_A,)))) as subscription:
        subscription.counters = some_counters(doubt="not_connected")
        for _ in range(2 * SILENT_TICKS):
            stage.followers.compare()

        assert ([subscription], []) == (stage.intake.running, stage.intake.asked)


async def test_who_says_the_same_again_is_not_in_the_log_again(caplog: pytest.LogCaptureFixture) -> None:
    """A port behind a firewall would else fill it."""
    caplog.set_level(logging.INFO, logger="gateway")
    stage = Stage()
    async with stage.following(OF_A):
        for times in (1, 2, 3):
            stage.intake.running[0].counters = some_counters(doubt="not_connected")
            for _ in range(SILENT_TICKS):
                stage.followers.compare()
            await until(lambda times=times: len(stage.intake.subscriptions) == times + 1)  # type: ignore[misc]
            await until(lambda: len(stage.intake.running) == 1)

    assert [("INFO", "worker a tells of its cache at tcp://a:5557")] == said(caplog)


# ---- predictions


async def test_an_index_that_lies_is_doubted(caplog: pytest.LogCaptureFixture) -> None:
    """Once for all models of the worker, whichever noticed; its accuracy begins anew with it."""
    stage = Stage()
    other = stage.another_fleet()
    async with stage.following(OF_A, fleets=[other]) as subscription:
        subscription.feed.trusted("live")
        lie(stage.fleet)
        lie(other)
        stage.followers.compare()
        stage.followers.compare()

    assert ["doubt"] == subscription.done
    assert [False, False] == [state_of(fleet, A).told_accuracy.is_lying for fleet in (stage.fleet, other)]
    assert [("WARNING", "worker a does not have what its engine tells: that is begun anew")] == said(caplog)


async def test_only_the_worker_that_lies_is_doubted() -> None:
    """Not its neighbour."""
    stage = Stage()
    async with stage.following(OF_A, OF_B):
        for subscription in stage.intake.running:
            subscription.feed.trusted("live")
        lie(stage.fleet)
        stage.followers.compare()

        assert {"a": ["doubt"], "b": []} == {each.worker: each.done for each in stage.intake.running}


@pytest.mark.parametrize("state", ["catching_up", "stale", "untrusted"])
async def test_who_is_not_live_need_not_be_doubted(state: Trust) -> None:
    """It is not relied on as it is; what is known of its accuracy stays."""
    stage = Stage()
    async with stage.following(OF_A) as subscription:
        subscription.feed.trusted(state)
        lie(stage.fleet)
        stage.followers.compare()

    assert ([], True) == (subscription.done, state_of(stage.fleet, A).told_accuracy.is_lying)


@pytest.mark.parametrize(
    ("state", "done"), [("stale", ["vouch"]), ("live", []), ("catching_up", []), ("untrusted", [])]
)
async def test_a_stale_stream_that_comes_true_is_vouched_for(state: Trust, done: list[str]) -> None:
    """What is missing of it was evicted long ago, as it seems. The others need it not, or cannot be heard."""
    stage = Stage()
    async with stage.following(OF_A) as subscription:
        subscription.feed.trusted(state)
        prove(stage.fleet)
        stage.followers.compare()

    assert done == subscription.done


async def test_what_one_model_proves_is_nothing_while_another_is_lied_to() -> None:
    """A cache has to be right for all."""
    stage = Stage()
    other = stage.another_fleet()
    async with stage.following(OF_A, fleets=[other]) as subscription:
        subscription.feed.trusted("stale")
        prove(stage.fleet)
        lie(other)
        stage.followers.compare()

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
    """Of the workers whose engines have said where they tell."""
    stage = Stage()
    stage.intake.found["http://b"] = None
    stage.attend(OF_A, OF_B)
    async with stage.running():
        await until(lambda: stage.intake.running and len(stage.intake.asked) == 2)
        (of_a,) = stage.intake.running
        of_a.counters = some_counters(blocks={"stored": 7, "removed": 2})

        assert {A: of_a.counters} == stage.followers.counters()
        assert (7, 0, 0) == tuple(stage.followers.blocks_heard(each) for each in (A, B, WorkerId("unknown")))


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


async def test_everybody_is_heard_from_the_beginning_when_what_was_told_is_of_no_use() -> None:
    """By subscriptions of their own; what the former ones told, or tell yet, does not count."""
    stage = Stage()
    async with stage.following(OF_A, OF_B):
        of_a = next(each for each in stage.intake.running if each.worker == "a")
        of_a.feed.apply([stored("abc")])
        of_a.feed.trusted("live")
        stage.followers.begin_anew()
        await until(lambda: len(stage.intake.running) == 2 and len(stage.intake.subscriptions) == 4)

        assert of_a not in stage.intake.running
        assert (0, False) == stage.told(A)

        of_a.feed.apply([stored("abc")])

        assert (0, False) == stage.told(A)


# ---- data-parallel ranks


async def test_each_rank_is_followed_by_its_own_stream() -> None:
    """Its engine, which may dial, calls it by the name of the address."""
    stage = Stage(FakeIntake({"http://a": RANKS}))
    ranks = [replace(OF_A, worker=worker, rank=rank, name="gpu") for rank, worker in enumerate((A, B))]
    async with stage.following(*ranks):
        assert [(0, "gpu"), (1, "gpu")] == [(each.source.rank, each.worker) for each in stage.intake.subscriptions]


async def test_a_rank_whose_stream_is_not_told_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """The stream of another rank is not its own."""
    stage = Stage(FakeIntake({"http://a": Sources((AT_A,))}), ask_interval_s=0.0)
    caplog.set_level(logging.INFO, logger="gateway")
    stage.attend(replace(OF_A, rank=1))
    async with stage.running():
        await until(lambda: len(stage.intake.asked) >= 3)

        assert [] == stage.intake.subscriptions
        assert [("WARNING", "worker a does not tell of its cache: what was sent there has to do")] == said(caplog)
