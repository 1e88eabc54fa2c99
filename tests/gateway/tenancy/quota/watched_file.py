"""Embedded stores of tests, on a file that counts transactions and can fail."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.quota.checkpoint_writer import Book
from gateway.tenancy.quota.embedded_store import EmbeddedQuotaStore
from tests.contracts.embedded_quota import book, create_book
from tests.contracts.quota_stage import LEASE_S, NOW, PATIENCE_S, cancelled

T = TypeVar("T")


class WatchedFile(SqliteFile):
    """Counts transactions, and can be made to fail as a full or locked disk does."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.transactions = 0
        self.is_away = False

    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        self.transactions += 1
        if self.is_away:
            raise StoreUnavailable("database or disk is full")
        return await super().run(act)


@asynccontextmanager
async def running(
    file: SqliteFile, *, book: Book = book, clock: Callable[[], float] = lambda: NOW
) -> AsyncIterator[EmbeddedQuotaStore]:
    await file.run(create_book)
    store = EmbeddedQuotaStore(file, book, clock=clock, lease_s=LEASE_S)
    await store.open()
    task = asyncio.create_task(store.run())
    yield store
    await cancelled(task)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
