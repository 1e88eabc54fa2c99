"""Batches of the embedded store: few writes, and a file that cannot be written."""

import asyncio
import sqlite3
from collections.abc import Sequence
from functools import partial

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.quota import checkpoint_writer, checkpoints
from gateway.tenancy.quota.checkpoint_writer import MAX_ENTRIES
from gateway.tenancy.quota.embedded_store import EmbeddedQuotaStore
from gateway.tenancy.quota.limit import Charge, Granted, Limit
from gateway.tenancy.quota.meters import MeterState
from tests.contracts.embedded_quota import book, booked
from tests.contracts.quota_stage import LEASE_S
from tests.gateway.tenancy.quota.examples import DAY_S, NOW, TOKENS, entry, usd
from tests.gateway.tenancy.quota.watched_file import WatchedFile, running, until

WIDE = Limit("team:blue/tokens_per_minute", "rate", 6_000_000.0, burst=6_000_000.0)


async def test_most_requests_neither_write_nor_wait(file: WatchedFile) -> None:
    """Ten thousand requests use a third of their limits and cause fewer than a thousand transactions."""
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


async def test_void_rows_are_deleted(file: WatchedFile) -> None:
    now = NOW
    async with running(file, clock=lambda: now) as store:
        await store.reserve("blue", "a", [Charge(TOKENS, 10.0), usd(0.5, left_s=3600.0)], partial(entry, "lost"))
        store.settle("blue", "a", [Charge(TOKENS, 10.0), usd(0.5, left_s=3600.0)], partial(entry, "a"))
        now += 4000.0
        store.in_memory.sweep()
        await store.reserve("red", "b", [Charge(TOKENS, 10.0)], partial(entry, "lost"))

        rows: list[MeterState] = await file.run(lambda connection: checkpoints.read(connection, 0.0))
        assert [("red", TOKENS.id)] == [(row.team, row.limit) for row in rows]


async def test_a_client_that_leaves_while_it_waits_takes_nothing(file: WatchedFile) -> None:
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


async def test_while_the_file_fails_nothing_beyond_the_checkpoints_is_granted(file: WatchedFile) -> None:
    """Such refusals charge nothing, entries wait, and everything resumes when the file works again."""
    async with running(file) as store:
        first = await store.reserve("blue", "a", [Charge(WIDE, 1000.0), usd(0.5)], partial(entry, "lost"))
        assert isinstance(first, Granted)
        file.is_away = True
        store.settle("blue", "a", [Charge(WIDE, 1000.0), usd(0.5)], partial(entry, "a"))
        await until(lambda: store.is_degraded)

        below = await store.reserve("blue", "b", [Charge(WIDE, 1000.0)], partial(entry, "lost"))
        assert isinstance(below, Granted)
        for number in range(3):
            with pytest.raises(StoreUnavailable):
                await store.reserve("blue", f"c{number}", [Charge(WIDE, 1000.0), usd(0.5)], partial(entry, "lost"))

        assert 1 == store.waiting_entries
        file.is_away = False
        await until(lambda: not store.is_degraded and store.waiting_entries == 0)
        assert [entry("a")] == await file.run(booked)
        after = await store.reserve("blue", "d", [Charge(WIDE, 0.0), usd(0.5)], partial(entry, "lost"))
        assert isinstance(after, Granted)
        assert 6_000_000.0 - 2000.0 == pytest.approx(after.levels[0].remaining, abs=1.0)


async def test_the_wait_for_a_checkpoint_is_bounded(file: WatchedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written, because `run` does not run."""
    monkeypatch.setattr(checkpoint_writer, "PATIENCE_S", 0.01)
    store = EmbeddedQuotaStore(file, book, clock=lambda: NOW, lease_s=LEASE_S)
    await store.open()

    for number in range(3):
        with pytest.raises(StoreUnavailable):
            await store.reserve("blue", f"r{number}", [Charge(TOKENS, 60.0)], partial(entry, "lost"))


async def test_entries_without_room_are_counted(file: WatchedFile, caplog: pytest.LogCaptureFixture) -> None:
    async with running(file) as store:
        file.is_away = True
        for number in range(MAX_ENTRIES + 2):
            store.book("blue", partial(entry, f"r{number % 10}"))
        assert MAX_ENTRIES == store.waiting_entries
        assert 2 == store.dropped_entries
        assert 1 == sum("further entries are lost" in line for line in caplog.messages)

        file.is_away = False
        await until(lambda: store.waiting_entries == 0)
        store.book("blue", partial(entry, "last"))
    assert MAX_ENTRIES + 1 == len(await file.run(booked))


async def test_an_entry_that_the_ledger_rejects_stops_no_other(file: WatchedFile) -> None:
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


async def test_no_request_waits_for_a_file_that_fails(file: WatchedFile) -> None:
    """Writing to a locked file fails after seconds. After the first failure requests are refused at once."""
    async with running(file) as store:
        file.is_away = True
        with pytest.raises(StoreUnavailable):
            await store.reserve("blue", "a", [usd(0.5)], partial(entry, "lost"))
        tried = file.transactions
        for number in range(100):
            with pytest.raises(StoreUnavailable) as caught:
                await store.reserve("blue", f"b{number}", [usd(0.5)], partial(entry, "lost"))
            assert 0.5 == caught.value.retry_after_s
        assert tried == file.transactions

        file.is_away = False
        await until(lambda: not store.is_degraded)
        answer = await store.reserve("blue", "c", [usd(0.5)], partial(entry, "lost"))
        assert isinstance(answer, Granted)
