"""What the embedded store adds to the contract: few writes, kills at any moment, and a file that cannot be written."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from gateway.errors import StoreAway
from gateway.ledger.entry import Entry
from gateway.ledger.price import Price
from gateway.quota import embedded_store, marks
from gateway.quota.embedded_store import EmbeddedQuotaStore
from gateway.quota.limit import Charge, Granted, Level, Limit, Refused
from gateway.quota.meters import MeterState
from gateway.quota.output_length import Lengths, OutputLengths
from gateway.quota.plan import Calendar, Metered, Plan, Plans
from gateway.quota.quota import Ask, Exposure, Quota, Reservation
from gateway.quota.seats import BOTH, DAY, NEVER, ONE, USD, Counted, Seats, Taken
from gateway.storage.sqlite_file import SqliteFile
from gateway.teams.limits import Limits
from tests.contracts.embedded_quota import EmbeddedStage, book, booked, create_book
from tests.contracts.quota_stage import LEASE_S, PATIENCE_S, cancelled
from tests.gateway.quota import killed_gateway
from tests.gateway.quota.books import Books
from tests.gateway.quota.examples import BUDGET, DAY_S, NOW, REQUESTS, SLOTS, TOKENS, caller, entry, usd

T = TypeVar("T")

WIDE = Limit("team:blue/tokens_per_minute", "rate", 6_000_000.0, burst=6_000_000.0)


class WatchedFile(SqliteFile):
    """Counts transactions, and can be made to fail as a full or locked disk does."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.transactions = 0
        self.is_away = False

    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        self.transactions += 1
        if self.is_away:
            raise StoreAway("database or disk is full")
        return await super().run(act)


@asynccontextmanager
async def running(
    file: SqliteFile, *, book: embedded_store.Book = book, clock: Callable[[], float] = lambda: NOW
) -> AsyncIterator[EmbeddedQuotaStore]:
    await file.run(create_book)
    store = EmbeddedQuotaStore(file, book, clock=clock, lease_s=LEASE_S)
    await store.open()
    task = asyncio.create_task(store.run())
    yield store
    await cancelled(task)


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[WatchedFile]:
    made = WatchedFile(tmp_path / "quota.db")
    yield made
    await made.aclose()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[EmbeddedStage]:
    made = EmbeddedStage(tmp_path / "quota.db")
    await made.begin()
    yield made
    await made.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def test_most_requests_write_nothing_and_wait_for_nobody(file: WatchedFile) -> None:
    """Ten thousand requests that use up a third of their limits: the file is written some hundred times at most."""
    day = Limit("team:blue/tokens_per_day", "period", 3_000_000.0)
    async with running(file) as store:
        for number in range(10_000):
            charges = [Charge(WIDE, 100.0), Charge(day, 100.0, "2026-11-18", DAY_S)]
            answer = await store.reserve("blue", f"r{number}", charges, partial(entry, "lost"))
            assert isinstance(answer, Granted)
            store.settle("blue", f"r{number}", charges, partial(entry, f"r{number}"))
            if number % 20 == 0:
                await asyncio.sleep(0)
        await until(lambda: store.waiting_entries == 0)

        assert file.transactions < 1000
        assert 10_000 == len({each.record.request_id for each in await file.run(booked)})


async def test_a_store_in_memory_works_and_is_lost_at_the_end() -> None:
    file = SqliteFile(Path(":memory:"))
    async with running(file) as store:
        assert isinstance(await store.reserve("blue", "a", [Charge(TOKENS, 60.0)], partial(entry, "lost")), Granted)
        assert isinstance(await store.reserve("blue", "b", [Charge(TOKENS, 60.0)], partial(entry, "lost")), Refused)
        store.settle("blue", "a", [Charge(TOKENS, 60.0)], partial(entry, "a"))
        await until(lambda: store.waiting_entries == 0)
        assert [entry("a")] == await file.run(booked)
    await file.aclose()


async def test_what_was_used_beyond_an_estimate_survives_once_it_is_booked(stage: EmbeddedStage) -> None:
    """It is written with the entry, in one transaction."""
    await stage.store.reserve("blue", "a", [Charge(TOKENS, 10.0), usd(0.01)], partial(entry, "lost"))
    stage.store.settle("blue", "a", [Charge(TOKENS, 500.0), usd(0.9)], partial(entry, "a"))
    assert [entry("a")] == await stage.booked()
    await stage.die()

    tokens = await stage.store.reserve("blue", "b", [Charge(TOKENS, 10.0)], partial(entry, "lost"))
    budget = await stage.store.reserve("blue", "c", [usd(0.11)], partial(entry, "lost"))

    assert isinstance(tokens, Refused)
    assert 45.0 <= tokens.wait_s <= 45.0 + 5.0
    assert isinstance(budget, Refused)


async def test_what_is_settled_into_a_period_that_is_over_does_not_hide_the_present_one(stage: EmbeddedStage) -> None:
    await stage.store.reserve("blue", "late", [usd(0.5, left_s=1.0)], partial(entry, "lost"))
    await stage.advance(1.0)
    await stage.store.reserve("blue", "a", [usd(1.0, period="2026-11-19", left_s=DAY_S)], partial(entry, "lost"))
    stage.store.settle("blue", "late", [usd(5.0)], partial(entry, "late"))
    assert [entry("late")] == await stage.booked()
    await stage.die()

    answer = await stage.store.reserve(
        "blue", "b", [usd(0.1, period="2026-11-19", left_s=DAY_S)], partial(entry, "lost")
    )

    assert isinstance(answer, Refused)


async def test_a_kill_costs_no_more_than_a_step_of_the_mark(stage: EmbeddedStage) -> None:
    for number in range(10):
        await stage.store.reserve("blue", f"r{number}", [Charge(TOKENS, 1.0), usd(0.05)], partial(entry, "lost"))
    await stage.die()

    answer = await stage.store.reserve("blue", "a", [Charge(TOKENS, 0.0), usd(0.0)], partial(entry, "lost"))

    assert isinstance(answer, Granted)
    tokens, budget = answer.levels
    assert 45.0 - 1e-3 <= tokens.remaining <= 50.0 + 1e-3
    assert 0.499 - 1e-9 <= budget.remaining <= 0.5 + 1e-9


@pytest.mark.parametrize("kills", [1, 2])
async def test_a_kill_gives_back_what_budgets_had_reserved_beyond_what_was_likely(
    stage: EmbeddedStage, kills: int
) -> None:
    """Of a request that ran; what was used is not given back, nor anything twice."""
    most = Charge(BUDGET, 0.5, "2026-11-18", DAY_S / 2, 0.1)
    await stage.store.reserve("blue", "runs", [most], partial(entry, "lost"))
    await stage.store.reserve("blue", "ended", [most], partial(entry, "lost"))
    stage.store.settle("blue", "ended", [usd(0.3)], partial(entry, "ended"))
    await stage.booked()
    for _ in range(kills):
        await stage.die()

    (spent,) = await stage.store.spent("blue", [usd(0.0)])
    assert 0.4 <= spent <= 0.4 + 2 * marks.PERIOD_SHARE


async def test_what_runs_by_numbers_is_given_back_after_a_kill_too(stage: EmbeddedStage) -> None:
    model = Metered("tiny", Price.per_million(input_usd=0.0, cached_input_usd=0.0, output_usd=1000.0).cost_usd)
    plans = Plans(burst=0.1, cached_weight=0.1, calendar=Calendar(UTC))
    lengths = OutputLengths(default=100.0)
    quota = Quota(stage.store, plans, lengths=lengths, clock=lambda: NOW, time_zone=UTC)
    who = caller(team=Limits(usd_per_day=1.0, tokens_per_day=10_000))
    for _ in range(3):
        ask = Ask(0.0, max_tokens=300)
        if quota.reserve_at_once(who, model, ask, lambda _: entry("lost")) is None:  # it waits for its mark
            await quota.reserve(who, model, ask, lambda _: entry("lost"))
    await stage.store.reserve("red", "a", [], partial(entry, "lost"))
    stage.store.settle("red", "a", [], partial(entry, "a"))
    await stage.booked()
    await stage.die()
    tokens = Charge(Limit("team:blue/tokens_per_day", "period", 10_000.0), 0.0, "2026-11-18", DAY_S / 2)

    spent = await stage.store.spent("blue", [usd(0.0), tokens])
    assert [0.3, 300.0] == pytest.approx(spent, rel=0.05)


async def test_what_is_nobodys_any_more_is_settled_and_booked(stage: EmbeddedStage) -> None:
    """A reservation that its process has forgotten ends with its lease."""
    await stage.store.reserve("blue", "a", [Charge(SLOTS, 1.0), Charge(TOKENS, 10.0)], partial(entry, "lost-a"))
    await stage.advance(LEASE_S - 1.0)
    await stage.store.reserve("blue", "b", [Charge(SLOTS, 1.0)], partial(entry, "lost-b"))
    assert [] == await stage.booked()

    await stage.advance(1.0)

    assert [entry("lost-a")] == await stage.booked()
    stage.store.settle("blue", "a", [Charge(SLOTS, 0.0), Charge(TOKENS, 0.0)], partial(entry, "a"))
    assert [entry("lost-a")] == await stage.booked()
    assert isinstance(await stage.store.reserve("blue", "c", [Charge(SLOTS, 1.0)], partial(entry, "lost-c")), Granted)
    assert isinstance(await stage.store.reserve("blue", "d", [Charge(SLOTS, 1.0)], partial(entry, "lost-d")), Refused)


async def test_what_says_nothing_any_more_leaves_the_file(file: WatchedFile) -> None:
    now = NOW
    async with running(file, clock=lambda: now) as store:
        await store.reserve("blue", "a", [Charge(TOKENS, 10.0), usd(0.5, left_s=3600.0)], partial(entry, "lost"))
        store.settle("blue", "a", [Charge(TOKENS, 10.0), usd(0.5, left_s=3600.0)], partial(entry, "a"))
        now += 4000.0
        store.sweep()
        await store.reserve("red", "b", [Charge(TOKENS, 10.0)], partial(entry, "lost"))

        rows: list[MeterState] = await file.run(lambda connection: marks.read(connection, 0.0))
        assert [("red", TOKENS.id)] == [(row.team, row.limit) for row in rows]


async def test_a_client_that_leaves_while_it_waits_for_a_mark_takes_nothing(file: WatchedFile) -> None:
    async with running(file) as store:
        reserving = asyncio.create_task(
            store.reserve("blue", "a", [Charge(TOKENS, 60.0), usd(1.0)], partial(entry, "lost"))
        )
        await asyncio.sleep(0)
        reserving.cancel()
        await asyncio.wait([reserving])
        assert reserving.cancelled()

        answer = await store.reserve("blue", "b", [Charge(TOKENS, 60.0), usd(1.0)], partial(entry, "lost"))
        assert isinstance(answer, Granted)


async def test_while_the_file_cannot_be_written_nothing_beyond_the_marks_is_granted(file: WatchedFile) -> None:
    """What is refused so is not charged, entries wait, and all of it goes on when the file is back."""
    async with running(file) as store:
        first = await store.reserve("blue", "a", [Charge(WIDE, 1000.0), usd(0.5)], partial(entry, "lost"))
        assert isinstance(first, Granted)
        file.is_away = True
        store.settle("blue", "a", [Charge(WIDE, 1000.0), usd(0.5)], partial(entry, "a"))
        await until(lambda: store.is_degraded)

        below = await store.reserve("blue", "b", [Charge(WIDE, 1000.0)], partial(entry, "lost"))
        assert isinstance(below, Granted)
        for number in range(3):
            with pytest.raises(StoreAway):
                await store.reserve("blue", f"c{number}", [Charge(WIDE, 1000.0), usd(0.5)], partial(entry, "lost"))

        assert 1 == store.waiting_entries
        file.is_away = False
        await until(lambda: not store.is_degraded and store.waiting_entries == 0)
        assert [entry("a")] == await file.run(booked)
        after = await store.reserve("blue", "d", [Charge(WIDE, 0.0), usd(0.5)], partial(entry, "lost"))
        assert isinstance(after, Granted)
        assert 6_000_000.0 - 2000.0 == pytest.approx(after.levels[0].remaining, abs=1.0)


async def test_nobody_waits_for_ever_for_a_mark(file: WatchedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here `run` is not running, so nothing is ever written."""
    monkeypatch.setattr(embedded_store, "PATIENCE_S", 0.01)
    store = EmbeddedQuotaStore(file, book, clock=lambda: NOW, lease_s=LEASE_S)
    await store.open()

    for number in range(3):
        with pytest.raises(StoreAway):
            await store.reserve("blue", f"r{number}", [Charge(TOKENS, 60.0)], partial(entry, "lost"))


async def test_entries_that_find_no_place_to_wait_are_counted(
    file: WatchedFile, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(file) as store:
        file.is_away = True
        for number in range(embedded_store.MOST_ENTRIES + 2):
            store.book("blue", partial(entry, f"r{number % 10}"))
        assert embedded_store.MOST_ENTRIES == store.waiting_entries
        assert 2 == store.dropped_entries
        assert 1 == sum("what comes is lost" in line for line in caplog.messages)

        file.is_away = False
        await until(lambda: store.waiting_entries == 0)
        store.book("blue", partial(entry, "last"))
    assert embedded_store.MOST_ENTRIES + 1 == len(await file.run(booked))


async def test_an_entry_that_the_ledger_does_not_take_stops_no_other(file: WatchedFile) -> None:
    def choosy(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
        book(connection, entries)
        if any(each.record.request_id == "r13" for each in entries):
            raise OverflowError("Python int too large to convert to SQLite INTEGER")

    async with running(file, book=choosy) as store:
        for number in range(40):
            store.book("blue", partial(entry, f"r{number}"))
        answer = await store.reserve("blue", "a", [Charge(TOKENS, 1.0)], partial(entry, "lost"))
        assert isinstance(answer, Granted)
    assert 1 == store.dropped_entries
    expected = sorted(f"r{number}" for number in range(40) if number != 13)
    assert expected == sorted(each.record.request_id for each in await file.run(booked))


class Lives:
    """Gateways that live one after the other on the same file; all but the last are killed somewhere."""

    LIMITS = (TOKENS, Limit("team:blue/tokens_per_minute", "rate", 3000.0, burst=3000.0), REQUESTS, SLOTS, BUDGET)

    def __init__(self, stage: EmbeddedStage, rng: random.Random) -> None:
        self._stage = stage
        self._rng = rng
        self._books = Books()
        self._live: dict[str, list[Charge]] = {}
        self._number = 0
        self.settled: list[str] = []
        self.settled_since_birth: list[str] = []
        self.granted = 0

    async def live(self, rounds: int) -> None:
        """In each round some reserve at once; then some end, and time passes."""
        self.settled_since_birth = []
        for _ in range(rounds):
            await asyncio.gather(*(self._reserve() for _ in range(self._rng.randrange(6))))
            self._settle_some()
            await self._stage.advance(self._rng.choice([0.0, 0.01, 0.7, 5.0, 5000.0 * (not self._live)]))

    async def be_killed(self) -> None:
        """While some reserve, after any number of steps."""
        reserving = [asyncio.create_task(self._reserve()) for _ in range(5)]
        for _ in range(self._rng.choice([0, 1, 3, 30, 300])):
            await asyncio.sleep(0)
        for task in reserving:
            task.cancel()
        await asyncio.wait(reserving)
        await self._stage.die()
        self._live.clear()  # they stay charged for ever, and run no more
        self._books.running.clear()

    async def _reserve(self) -> None:
        self._number += 1
        reservation, charges, now = f"r{self._number}", self._charges(), self._stage.now
        answer = await self._stage.store.reserve("blue", reservation, charges, partial(entry, f"lost-{reservation}"))
        if isinstance(answer, Granted):
            self.granted += 1
            self._books.grant(charges, now)
            self._live[reservation] = charges

    def _charges(self) -> list[Charge]:
        day, past_s = divmod(self._stage.now, DAY_S)
        return [
            Charge(limit, 1.0)
            if limit.kind == "concurrent"
            else Charge(limit, self._rng.choice([0.02, 0.1, 0.3, 1.2]) * limit.burst)
            if limit.kind == "rate"
            else Charge(limit, self._rng.choice([0.001, 0.05, 0.2]), f"{day:.0f}", DAY_S - past_s)
            for limit in self.LIMITS
            if self._rng.random() < 0.6
        ]

    def _settle_some(self) -> None:
        """No overruns: those are charged when they are known, and a kill may be sooner."""
        for reservation in [each for each in self._live if self._rng.random() < 0.6]:
            charges = self._live.pop(reservation)
            share = self._rng.choice([0.0, 0.4, 1.0])
            used = [Charge(charge.limit, charge.units * share, charge.period) for charge in charges]
            self._stage.store.settle("blue", reservation, used, partial(entry, reservation))
            self._books.settle(charges, used)
            self.settled.append(reservation)
            self.settled_since_birth.append(reservation)


async def test_nobody_waits_for_a_file_that_cannot_be_written(file: WatchedFile) -> None:
    """A locked file takes seconds to say so: once it has, it is tried without the requests, and they are refused."""
    async with running(file) as store:
        file.is_away = True
        with pytest.raises(StoreAway):
            await store.reserve("blue", "a", [usd(0.5)], partial(entry, "lost"))
        tried = file.transactions
        for number in range(100):
            with pytest.raises(StoreAway) as caught:
                await store.reserve("blue", f"b{number}", [usd(0.5)], partial(entry, "lost"))
            assert 0.5 == caught.value.retry_after_s
        assert tried == file.transactions

        file.is_away = False
        await until(lambda: not store.is_degraded)
        answer = await store.reserve("blue", "c", [usd(0.5)], partial(entry, "lost"))
        assert isinstance(answer, Granted)


@pytest.mark.parametrize("block", range(6))
async def test_no_kill_makes_a_gateway_grant_more(block: int, tmp_path: Path) -> None:
    """Limits hold over all lives together, and the ledger has every entry once at most: all those of the last life."""
    granted = 0
    for seed in range(8 * block, 8 * (block + 1)):
        rng = random.Random(seed)
        stage = EmbeddedStage(tmp_path / f"{seed}.db")
        await stage.begin()
        lives = Lives(stage, rng)
        for _ in range(rng.randrange(1, 5)):
            await lives.live(rng.randrange(1, 8))
            await lives.be_killed()
        await lives.live(6)
        await stage.end()
        entries = Counter(each.record.request_id for each in await stage.booked())
        assert set(lives.settled_since_birth) <= set(entries) <= set(lives.settled)
        assert all(count == 1 for count in entries.values())
        granted += lives.granted
        await stage.close()
    assert granted > 100


@pytest.mark.e2e
async def test_nothing_that_was_granted_is_forgotten_by_kill_9(tmp_path: Path) -> None:
    """Three processes in a row are killed while they reserve as fast as they can; a fourth is not given more."""
    path = tmp_path / "quota.db"
    told, began = 0.0, time.time()
    for kill_after in (50, 400, 2000):
        process = subprocess.Popen(  # noqa: ASYNC220  # nothing else runs here meanwhile
            [sys.executable, "-m", "tests.gateway.quota.killed_gateway", str(path)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        assert process.stdout is not None
        for _ in range(kill_after):
            told += float(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        told += sum(float(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith(b"\n"))
        process.stdout.close()
        process.wait()

    file = SqliteFile(path)
    async with running(file, clock=time.time) as store:
        answer = await store.reserve("blue", "last", killed_gateway.charges(0.0), partial(entry, "lost"))
    await file.aclose()
    assert isinstance(answer, Granted)
    day, bucket = answer.levels
    assert day.remaining <= killed_gateway.DAY.amount - told
    step = marks.PERIOD_SHARE * killed_gateway.DAY.amount
    # A grant that was written and not told may be charged as well: one for each kill.
    assert day.remaining >= killed_gateway.DAY.amount - told - 3 * (step + killed_gateway.UNITS)
    assert bucket.remaining <= killed_gateway.BUCKET.burst - told + (time.time() - began)


def sitting(seats: Seats, name: str) -> Reservation:
    """A request that takes ten tokens and half a dollar by numbers."""
    plan = Plan([], cached_weight=1.0, calendar=Calendar(UTC))
    lost = partial(entry, f"lost-{name}")
    taken = Reservation(
        "r",
        1,
        team="blue",
        model=Metered("tiny", lambda *_: 0.0),
        plan=plan,
        lengths=Lengths(),
        exposure=Exposure(),
        asked=None,
        choices=1,
        lost=lambda _: lost(),
    )
    taken.seats = seats
    taken.both, taken.usd = 10.0, 0.5
    return taken


BY_NUMBERS = [Counted(TOKENS, BOTH, NEVER), Counted(BUDGET, USD, DAY), Counted(SLOTS, ONE, NEVER)]


async def seats_of(store: EmbeddedQuotaStore) -> Seats:
    """Of limits of which nothing is used, and whose marks are in the file."""
    await store.reserve("blue", "first", [Charge(TOKENS, 10.0), usd(0.5), Charge(SLOTS, 1.0)], partial(entry, "lost"))
    seats = store.seats("first", BY_NUMBERS)
    assert seats is not None
    store.settle("blue", "first", [Charge(TOKENS, 0.0), usd(0.0), Charge(SLOTS, 0.0)], partial(entry, "first"))
    seats.day, seats.day_left_s = "2026-11-18", DAY_S / 2
    return seats


NOTHING = {"one": 0.0, "prompt": 0.0, "completion": 0.0, "both": 0.0, "usd": 0.0}


async def test_what_is_taken_by_numbers_is_booked_once(stage: EmbeddedStage) -> None:
    taken = sitting(await seats_of(stage.store), "a")
    granted = stage.store.take(taken, stage.now)

    assert granted is not None
    assert (Level(50.0, 1.0), Level(0.5, DAY_S / 2), Level(1.0, 0.0)) == granted.levels
    for _ in range(2):
        stage.store.give_back(taken, partial(entry, "a"), one=1.0, prompt=0.0, completion=0.0, both=600.0, usd=0.9)
    assert ["first", "a"] == [each.request_id for each in await stage.booked()]
    await stage.die()

    tokens = await stage.store.reserve("blue", "b", [Charge(TOKENS, 10.0)], partial(entry, "lost"))
    budget = await stage.store.reserve("blue", "c", [usd(0.11)], partial(entry, "lost"))

    assert isinstance(tokens, Refused)
    assert isinstance(budget, Refused)


async def test_what_is_taken_by_numbers_and_by_nobody_settled_is_lost_with_its_lease(stage: EmbeddedStage) -> None:
    seats = await seats_of(stage.store)
    taken = sitting(seats, "a")
    assert stage.store.take(taken, stage.now) is not None

    await stage.advance(LEASE_S - 1.0)
    assert ["first"] == [each.request_id for each in await stage.booked()]
    await stage.advance(1.0)
    stage.store.give_back(taken, partial(entry, "a"), **NOTHING)

    assert ["first", "lost-a"] == [each.request_id for each in await stage.booked()]
    slots = await stage.store.reserve("blue", "c", [Charge(SLOTS, 2.0)], partial(entry, "lost"))
    assert isinstance(slots, Granted)


async def test_a_mark_is_not_passed_by_numbers(file: WatchedFile) -> None:
    """Who needs the next one has to wait for it, and is told so; nothing was taken."""
    async with running(file) as store:
        seats = await seats_of(store)
        await until(lambda: store.waiting_entries == 0)
        file.is_away = True
        for seat in seats.each:
            seat.meter.mark = seat.meter.alert = min(seat.meter.mark, NOW + 0.5)
        taken = sitting(seats, "a")

        assert store.take(taken, NOW) is None
        assert not taken.is_held
        file.is_away = False
        levels = await store.reserve("blue", "b", [Charge(TOKENS, 0.0), usd(0.0)], partial(entry, "lost"))
        assert isinstance(levels, Granted)
        assert [60.0, 1.0] == [level.remaining for level in levels.levels]


async def test_there_are_no_seats_for_what_is_not_held(stage: EmbeddedStage) -> None:
    assert stage.store.seats("nobody", BY_NUMBERS) is None
    assert stage.store.take(Taken(), stage.now) is None
