import asyncio
import logging
from pathlib import Path

import pytest

from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger.retention import INTERVAL_S, Retention
from gateway.tenancy.ledger.sqlite_usage import SqliteUsage
from gateway.tenancy.ledger.usage_store import Period, RecordQuery, SumQuery
from tests.gateway.tenancy.ledger.examples import an_entry, sqlite_ledger

NOVEMBER = Period.month("2026-11")


class Sleeps:
    """Lets an hour pass at once, and ends the loop after some of them."""

    def __init__(self, hours: int) -> None:
        self.slept: list[float] = []
        self._hours = hours

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.slept.count(INTERVAL_S) == self._hours:
            raise asyncio.CancelledError


async def test_days_are_kept_with_that_of_today() -> None:
    """Two of records, four of sums."""
    async with sqlite_ledger() as ledger:
        await ledger.book([an_entry(f"2026-11-{day}") for day in range(15, 22)])
        retention = Retention(ledger.usage, record_days=2, sum_days=4, today=lambda: "2026-11-21", sleep=Sleeps(1))

        await retention.forget()

        records = await ledger.usage.records(RecordQuery(period=NOVEMBER))
        days = await ledger.usage.sums(SumQuery(period=NOVEMBER, by=("day",)))
        assert 2 == len(records.items)
        assert [f"2026-11-{day}" for day in range(18, 22)] == [one.group["day"] for one in days]


async def test_all_that_is_too_old_goes_however_much_it_is() -> None:
    """With a pause between the pieces."""
    async with sqlite_ledger() as ledger:
        await ledger.book([an_entry("2026-11-01")] * 2500)
        sleeps = Sleeps(1)
        retention = Retention(ledger.usage, record_days=1, sum_days=1, today=lambda: "2026-11-21", sleep=sleeps)

        await retention.forget()

        assert [] == (await ledger.usage.records(RecordQuery(period=NOVEMBER))).items
        assert 2 == len(sleeps.slept)


async def test_it_forgets_every_hour() -> None:
    """What was young enough an hour ago may not be."""
    async with sqlite_ledger() as ledger:
        await ledger.book([an_entry(f"2026-11-{day}") for day in (20, 21, 22)])
        today = iter(["2026-11-20", "2026-11-20", "2026-11-22", "2026-11-22"])
        sleeps = Sleeps(2)
        retention = Retention(ledger.usage, record_days=1, sum_days=1, today=lambda: next(today), sleep=sleeps)

        with pytest.raises(asyncio.CancelledError):
            await retention.run()

        days = await ledger.usage.sums(SumQuery(period=NOVEMBER, by=("day",)))
        assert [INTERVAL_S, INTERVAL_S] == sleeps.slept
        assert ["2026-11-22"] == [one.group["day"] for one in days]


async def test_more_days_than_there_were_keep_everything() -> None:
    async with sqlite_ledger() as ledger:
        await ledger.book([an_entry("2026-11-01")])
        retention = Retention(ledger.usage, record_days=10**9, sum_days=10**9, today=lambda: "2026-11-21")

        await retention.forget()

        assert 1 == len((await ledger.usage.records(RecordQuery(period=NOVEMBER))).items)


async def test_an_unavailable_store_is_tried_again(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    sleeps = Sleeps(3)
    file = SqliteFile(tmp_path / "nowhere" / "ledger.db")
    retention = Retention(SqliteUsage(file), record_days=1, sum_days=1, today=lambda: "2026-11-21", sleep=sleeps)

    with caplog.at_level(logging.WARNING), pytest.raises(asyncio.CancelledError):
        await retention.run()
    await file.aclose()

    assert 3 == len(caplog.records)
