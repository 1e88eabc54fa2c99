"""Kills of the embedded store at any moment."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC
from functools import partial
from pathlib import Path

import pytest

from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger.price import Price
from gateway.tenancy.quota import checkpoints, embedded_store
from gateway.tenancy.quota.limit import Charge, Granted, Limit, Refused
from gateway.tenancy.quota.meter_table import new_table
from gateway.tenancy.quota.output_length import OutputLengths
from gateway.tenancy.quota.plan import Calendar, Metered, Plans
from gateway.tenancy.quota.quota import Ask, Quota
from gateway.tenancy.teams.limits import Limits
from tests.contracts.embedded_quota import EmbeddedStage, booked
from tests.contracts.quota_stage import LEASE_S, PATIENCE_S
from tests.gateway.tenancy.quota import killed_gateway
from tests.gateway.tenancy.quota.books import Books
from tests.gateway.tenancy.quota.examples import BUDGET, DAY_S, NOW, REQUESTS, SLOTS, TOKENS, caller, entry, usd
from tests.gateway.tenancy.quota.watched_file import WatchedFile, running, until


async def test_a_store_in_memory_works_and_is_lost_at_the_end() -> None:
    file = SqliteFile(Path(":memory:"))
    async with running(file) as store:
        assert isinstance(await store.reserve("blue", "a", [Charge(TOKENS, 60.0)], partial(entry, "lost")), Granted)
        assert isinstance(await store.reserve("blue", "b", [Charge(TOKENS, 60.0)], partial(entry, "lost")), Refused)
        store.settle("blue", "a", [Charge(TOKENS, 60.0)], partial(entry, "a"))
        await until(lambda: store.waiting_entries == 0)
        assert [entry("a")] == await file.run(booked)
    await file.aclose()


async def test_use_beyond_the_estimate_survives_once_it_is_booked(stage: EmbeddedStage) -> None:
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


async def test_a_late_settlement_does_not_hide_the_current_period(stage: EmbeddedStage) -> None:
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


async def test_a_kill_costs_no_more_than_one_checkpoint_step(stage: EmbeddedStage) -> None:
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
    """This holds for running requests, and happens once. What was used is not given back."""
    most = Charge(BUDGET, 0.5, "2026-11-18", DAY_S / 2, 0.1)
    await stage.store.reserve("blue", "runs", [most], partial(entry, "lost"))
    await stage.store.reserve("blue", "ended", [most], partial(entry, "lost"))
    stage.store.settle("blue", "ended", [usd(0.3)], partial(entry, "ended"))
    await stage.booked()
    for _ in range(kills):
        await stage.die()

    (spent,) = await stage.store.spent("blue", [usd(0.0)])
    assert 0.4 <= spent <= 0.4 + 2 * checkpoints.PERIOD_SHARE


async def test_a_kill_gives_back_unlikely_units_of_plan_holds(stage: EmbeddedStage) -> None:
    model = Metered("tiny", Price.per_million(input_usd=0.0, cached_input_usd=0.0, output_usd=1000.0).cost_usd)
    plans = Plans(burst=0.1, cached_weight=0.1, calendar=Calendar(UTC))
    lengths = OutputLengths(default=100.0)
    quota = Quota(stage.store, plans, lengths=lengths, clock=lambda: NOW, time_zone=UTC)
    who = caller(team=Limits(usd_per_day=1.0, tokens_per_day=10_000))
    for _ in range(3):
        ask = Ask(0.0, max_tokens=300)
        if quota.reserve_at_once(who, model, ask, lambda _: entry("lost")) is None:  # it has to wait for a checkpoint
            await quota.reserve(who, model, ask, lambda _: entry("lost"))
    await stage.store.reserve("red", "a", [], partial(entry, "lost"))
    stage.store.settle("red", "a", [], partial(entry, "a"))
    await stage.booked()
    await stage.die()
    tokens = Charge(Limit("team:blue/tokens_per_day", "period", 10_000.0), 0.0, "2026-11-18", DAY_S / 2)

    spent = await stage.store.spent("blue", [usd(0.0), tokens])
    assert [0.3, 300.0] == pytest.approx(spent, rel=0.05)


async def test_a_forgotten_reservation_is_settled_and_booked(stage: EmbeddedStage) -> None:
    """A reservation without an owner ends with its lease."""
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


async def test_leases_end_while_the_store_is_busy(file: WatchedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_store, "SWEEP_S", 0.2)
    now = NOW
    async with running(file, clock=lambda: now) as store:
        charges = [Charge(SLOTS, 2.0)]
        await store.reserve("blue", "a", charges, partial(entry, "lost-a"))
        now += LEASE_S
        async with asyncio.timeout(PATIENCE_S):
            while isinstance(await store.reserve("blue", "b", charges, partial(entry, "lost-b")), Refused):
                if store.waiting_entries < 100:  # more would leave no time to the thread that writes the file
                    store.book("blue", partial(entry, "other"))
                await asyncio.sleep(0)


class Lives:
    """Gateways on the same file, one after the other. All but the last are killed."""

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
        """Reserve, settle and let time pass, in several rounds."""
        self.settled_since_birth = []
        for _ in range(rounds):
            await asyncio.gather(*(self._reserve() for _ in range(self._rng.randrange(6))))
            self._settle_some()
            await self._stage.advance(self._rng.choice([0.0, 0.01, 0.7, 5.0, 5000.0 * (not self._live)]))

    async def be_killed(self) -> None:
        """Kill the gateway after a random number of steps, while clients reserve."""
        reserving = [asyncio.create_task(self._reserve()) for _ in range(5)]
        for _ in range(self._rng.choice([0, 1, 3, 30, 300])):
            await asyncio.sleep(0)
        for task in reserving:
            task.cancel()
        await asyncio.wait(reserving)
        await self._stage.die()
        self._live.clear()  # they stay charged forever, and do not run any more
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
        """Settle some, without overruns: those are charged when they are known, and a kill may come before that."""
        for reservation in [each for each in self._live if self._rng.random() < 0.6]:
            charges = self._live.pop(reservation)
            share = self._rng.choice([0.0, 0.4, 1.0])
            used = [Charge(charge.limit, charge.units * share, charge.period) for charge in charges]
            self._stage.store.settle("blue", reservation, used, partial(entry, reservation))
            self._books.settle(charges, used)
            self.settled.append(reservation)
            self.settled_since_birth.append(reservation)


@pytest.mark.parametrize("block", range(6))
async def test_no_kill_makes_a_gateway_grant_more(block: int, tmp_path: Path) -> None:
    """Limits hold over all gateways together. The ledger has each entry at most once, and all entries of the last
    gateway."""
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
    """Three processes are killed while they reserve as fast as they can. A fourth is not granted more."""
    path = tmp_path / "quota.db"
    printed, began = 0.0, time.time()
    for kill_after in (50, 400, 2000):
        process = subprocess.Popen(  # noqa: ASYNC220  # nothing else runs here meanwhile
            [sys.executable, "-m", "tests.gateway.tenancy.quota.killed_gateway", str(path)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[4],
        )
        assert process.stdout is not None
        for _ in range(kill_after):
            printed += float(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        printed += sum(float(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith(b"\n"))
        process.stdout.close()
        process.wait()

    file = SqliteFile(path)
    async with running(file, clock=time.time) as store:
        answer = await store.reserve("blue", "last", killed_gateway.charges(0.0), partial(entry, "lost"))
    await file.aclose()
    assert isinstance(answer, Granted)
    day, bucket = answer.levels
    assert day.remaining <= killed_gateway.DAY.amount - printed
    step = checkpoints.PERIOD_SHARE * killed_gateway.DAY.amount
    # A grant that was written but not printed may be charged too: one for each kill.
    assert day.remaining >= killed_gateway.DAY.amount - printed - 3 * (step + killed_gateway.UNITS)
    assert bucket.remaining <= killed_gateway.BUCKET.burst - printed + (time.time() - began)


@pytest.mark.e2e
async def test_processes_that_are_killed_together_granted_no_more_than_the_file_says(tmp_path: Path) -> None:
    """Two processes with one table reserve as fast as they can, and are killed one after the other, three times."""
    path = tmp_path / "quota.db"
    printed = 0.0
    for kill_after in (50, 400, 2000):
        table = new_table(2)
        processes = [
            subprocess.Popen(  # noqa: ASYNC220  # nothing else runs here meanwhile
                [
                    *(sys.executable, "-m", "tests.gateway.tenancy.quota.killed_gateway"),
                    *(str(path), str(table.descriptor), str(seat)),
                ],
                stdout=subprocess.PIPE,
                cwd=Path(__file__).parents[4],
                pass_fds=[table.descriptor],
            )
            for seat in range(2)
        ]
        for process in processes:
            assert process.stdout is not None
            for _ in range(kill_after):
                printed += float(process.stdout.readline())
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
            assert process.stdout is not None
            left = process.stdout.read().splitlines(keepends=True)
            printed += sum(float(line) for line in left if line.endswith(b"\n"))
            process.stdout.close()
            process.wait()
        os.close(table.descriptor)

    file = SqliteFile(path)
    async with running(file, clock=time.time) as store:
        answer = await store.reserve("blue", "last", killed_gateway.charges(0.0), partial(entry, "lost"))
    await file.aclose()
    assert isinstance(answer, Granted)
    day, bucket = answer.levels
    assert day.remaining <= killed_gateway.DAY.amount - printed
    step = checkpoints.PERIOD_SHARE * killed_gateway.DAY.amount
    assert day.remaining >= killed_gateway.DAY.amount - printed - 3 * (step + 2 * killed_gateway.UNITS)
    assert bucket.remaining <= killed_gateway.BUCKET.burst - printed + 600.0
