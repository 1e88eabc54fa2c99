"""The embedded store on the stage of the `QuotaStore` contract suite."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.record import UsageRecord
from gateway.tenancy.quota.embedded_store import EmbeddedQuotaStore
from tests.contracts.quota_stage import LEASE_S, NOW, PATIENCE_S, QuotaStage, cancelled


def create_book(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS booked (entry BLOB NOT NULL)")


def book(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    """A ledger without rollups: what these tests look at is that each entry is there once."""
    connection.executemany(
        "INSERT INTO booked VALUES (?)", [(msgspec.json.encode((entry.day, entry.record)),) for entry in entries]
    )


def booked(connection: sqlite3.Connection) -> list[Entry]:
    rows = connection.execute("SELECT entry FROM booked").fetchall()
    return [Entry.from_record(*msgspec.json.decode(entry, type=tuple[str, UsageRecord])) for (entry,) in rows]


class EmbeddedStage:
    books_lost = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self.now = NOW
        self._file: SqliteFile
        self._running: asyncio.Task[None]
        self.store: EmbeddedQuotaStore

    async def begin(self) -> None:
        self._file = SqliteFile(self._path)
        await self._file.run(create_book)
        self.store = EmbeddedQuotaStore(self._file, book, clock=lambda: self.now, lease_s=LEASE_S)
        await self.store.open()
        self._running = asyncio.create_task(self.store.run())

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        self.store.in_memory.sweep()

    async def carried_out(self) -> None:
        """Limits are settled at once."""

    async def booked(self) -> list[Entry]:
        async with asyncio.timeout(PATIENCE_S):
            while self.store.waiting_entries:
                await asyncio.sleep(0.005)
        return await self._file.run(booked)

    async def end(self) -> None:
        await self.close()
        await self.begin()

    async def die(self) -> None:
        """Nothing more of the former is written: its file is closed under it."""
        await self._file.aclose()
        self._running.cancel()
        await asyncio.wait([self._running])
        await self.begin()

    async def close(self) -> None:
        await cancelled(self._running)
        await self._file.aclose()


@asynccontextmanager
async def embedded(request: pytest.FixtureRequest) -> AsyncIterator[QuotaStage]:
    stage = EmbeddedStage(request.getfixturevalue("tmp_path") / "quota.db")
    await stage.begin()
    yield stage
    await stage.close()
