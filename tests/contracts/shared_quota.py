"""Two processes of one gateway with one SQLite file and one table, on the stage of the `QuotaStore` contract suite."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from zlib import crc32

import pytest

from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger.entry import Draft, Entry
from gateway.tenancy.quota.checkpointed_meters import CheckpointedMeters
from gateway.tenancy.quota.embedded_store import EmbeddedQuotaStore
from gateway.tenancy.quota.limit import Charge, Granted, Refused
from gateway.tenancy.quota.meter_table import MeterTable, new_table
from tests.contracts.embedded_quota import book, booked, create_book
from tests.contracts.quota_stage import LEASE_S, NOW, PATIENCE_S, QuotaStage, cancelled

PROCESSES = 2


class Distributed:
    """A store that gives each reservation to one of *stores*, as the kernel distributes connections."""

    in_memory: CheckpointedMeters | None = None

    def __init__(self, stores: Sequence[EmbeddedQuotaStore]) -> None:
        self._stores = stores

    def _of(self, reservation: str) -> EmbeddedQuotaStore:
        return self._stores[crc32(reservation.encode()) % len(self._stores)]

    async def reserve(self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft) -> Granted | Refused:
        return await self._of(reservation).reserve(team, reservation, charges, lost)

    def settle(self, team: str, reservation: str, charges: Sequence[Charge], entry: Draft) -> None:
        self._of(reservation).settle(team, reservation, charges, entry)

    def book(self, team: str, entry: Draft) -> None:
        self._stores[0].book(team, entry)

    async def spent(self, team: str, charges: Sequence[Charge]) -> list[float]:
        return await self._stores[1].spent(team, charges)

    async def refund(self, team: str, charges: Sequence[Charge]) -> None:
        await self._stores[0].refund(team, charges)

    async def run(self) -> None:
        await asyncio.gather(*(each.run() for each in self._stores))

    @property
    def is_degraded(self) -> bool:
        return any(each.is_degraded for each in self._stores)

    @property
    def waiting_entries(self) -> int:
        return sum(each.waiting_entries for each in self._stores)

    @property
    def dropped_entries(self) -> int:
        return sum(each.dropped_entries for each in self._stores)


class SharedStage:
    books_lost = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self.now = NOW
        self._table: MeterTable
        self._files: list[SqliteFile]
        self._stores: list[EmbeddedQuotaStore]
        self._running: list[asyncio.Task[None]]
        self.store: Distributed

    async def begin(self) -> None:
        self._table = new_table(PROCESSES, capacity=1024)
        self._files = [SqliteFile(self._path) for _ in range(PROCESSES)]
        await self._files[0].run(create_book)
        self._stores = [
            EmbeddedQuotaStore(
                file,
                book,
                clock=lambda: self.now,
                lease_s=LEASE_S,
                table=MeterTable(self._table.descriptor, seat),
            )
            for seat, file in enumerate(self._files)
        ]
        for each in self._stores:
            await each.open()
        self._running = [asyncio.create_task(each.run()) for each in self._stores]
        self.store = Distributed(self._stores)

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        for each in self._stores:
            each.in_memory.sweep()

    async def carried_out(self) -> None:
        """Limits are settled at once."""

    async def booked(self) -> list[Entry]:
        async with asyncio.timeout(PATIENCE_S):
            while self.store.waiting_entries:
                await asyncio.sleep(0.005)
        return await self._files[0].run(booked)

    async def end(self) -> None:
        await self.close()
        await self.begin()

    async def die(self) -> None:
        """Both processes are killed, and nothing more of them is written: their files are closed under them."""
        for file in self._files:
            await file.aclose()
        for each in self._running:
            each.cancel()
        await asyncio.wait(self._running)
        os.close(self._table.descriptor)
        await self.begin()

    async def close(self) -> None:
        for each in self._running:
            await cancelled(each)
        for file in self._files:
            await file.aclose()
        os.close(self._table.descriptor)


@asynccontextmanager
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[QuotaStage]:
    stage = SharedStage(request.getfixturevalue("tmp_path") / "quota.db")
    await stage.begin()
    yield stage
    await stage.close()
