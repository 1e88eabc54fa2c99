"""Quotas of a single gateway, kept in memory and in one SQLite file, so that they survive if the process is killed."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress

from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger.entry import Draft
from gateway.tenancy.quota import checkpoints
from gateway.tenancy.quota.checkpoint_writer import Book, CheckpointWriter
from gateway.tenancy.quota.checkpointed_meters import CheckpointedMeters
from gateway.tenancy.quota.finish_on_cancel import finish_on_cancel
from gateway.tenancy.quota.limit import Charge, Granted, Refused
from gateway.tenancy.quota.meter_table import MeterTable
from gateway.tenancy.quota.meters import MAX_LIMITS, Meters, MeterState
from gateway.tenancy.quota.other_processes import NoOtherProcesses, OtherProcesses
from gateway.tenancy.quota.shared_meters import SharedMeters

SWEEP_S = 60.0
"""Seconds between two sweeps for ended leases and unused limits."""


class EmbeddedQuotaStore:
    """Quota store for a single gateway. Commands can use the file at the same time.

    Limits are decided in memory. The file holds checkpoints that the meters stay below
    (`gateway.tenancy.quota.checkpoints`), so most requests write nothing. A request that crosses a checkpoint is
    granted when the next checkpoint is committed, about a millisecond later. Ledger entries are written in batches,
    together with the checkpoints of the meters that they settled.

    A kill loses data that was not written: the ledger entries of the last `BATCH_S` seconds, and the use of their
    requests beyond the estimates. Requests in flight get no ledger entry. Their likely use stays charged, and the next
    process gives back the units that budgets had reserved beyond it (`checkpoints.reclaim`). A clean shutdown loses
    nothing.

    Several processes of one gateway can use the file if they share a table of the states of all limits.

    The store writes nothing unless `run` is running.
    """

    def __init__(
        self,
        file: SqliteFile,
        book: Book,
        *,
        clock: Callable[[], float],
        lease_s: float,
        max_limits: int = MAX_LIMITS,
        table: MeterTable | None = None,
    ) -> None:
        """Create the quota store. *clock* returns the time in seconds since 1970. *table* is the table of this process
        that all processes with the same file share, or None if there is one process.

        *lease_s* must be longer than any request takes. A reservation that is never settled ends after *lease_s*
        seconds. *max_limits* is the number of limits of a team beyond which no further end users and sessions are
        counted.
        """
        self._file = file
        self._clock = clock
        self._others: OtherProcesses
        if table is None:
            self._meters, self._others = Meters(alert=checkpoints.NEVER, max_limits=max_limits), NoOtherProcesses()
        else:
            shared = SharedMeters(table, alert=checkpoints.NEVER, max_limits=max_limits)
            self._meters, self._others = shared, shared
        self._table = table
        self._writer = CheckpointWriter(file, book, self._meters, self._others, clock=clock)
        self.in_memory = CheckpointedMeters(self._meters, self._writer, clock=clock, lease_s=lease_s)

    async def open(self) -> None:
        """Restore the state from the file, unless another process has done so. Await this before any other call.

        Raises:
            StoreUnavailable: if the file cannot be used.
        """
        now = self._clock()

        def read(connection: sqlite3.Connection) -> list[MeterState]:
            checkpoints.create(connection)
            checkpoints.reclaim(connection, now)
            return checkpoints.read(connection, now)

        is_first = self._table is None or not self._table.is_restored
        self._meters.restore(await self._file.run(read) if is_first else [])

    @property
    def is_degraded(self) -> bool:
        """Whether the last write to the file has failed. Limits still apply in this case."""
        return self._writer.is_failing

    @property
    def waiting_entries(self) -> int:
        return self._writer.waiting_entries

    @property
    def dropped_entries(self) -> int:
        return self._writer.dropped_entries

    async def reserve(self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft) -> Granted | Refused:
        decision, needed = self.in_memory.reserve(team, reservation, charges, lost)
        if needed:
            try:
                await self._writer.wait_for_commit(needed)
            except BaseException:
                self.in_memory.cancel(reservation)
                raise
        return decision

    def settle(self, team: str, reservation: str, charges: Sequence[Charge], entry: Draft) -> None:  # noqa: ARG002
        self.in_memory.settle(reservation, charges, entry)

    def book(self, team: str, entry: Draft) -> None:  # noqa: ARG002
        self._writer.add(entry)

    async def spent(self, team: str, charges: Sequence[Charge]) -> list[float]:
        return self.in_memory.spent(team, charges)

    async def refund(self, team: str, charges: Sequence[Charge]) -> None:
        self.in_memory.refund(team, charges)

    async def run(self) -> None:
        # A transaction that has begun is finished: otherwise it is unknown whether it was committed.
        await finish_on_cancel(self._write_until_end(), self._writer.end)

    async def _write_until_end(self) -> None:
        loop = asyncio.get_running_loop()
        sweep_at = loop.time() + SWEEP_S
        while not self._writer.is_ending:
            with suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_S):
                    await self._writer.wait_for_work()
            if loop.time() >= sweep_at:
                self.in_memory.sweep()
                while self._others.free_unused(self._clock()):  # noqa: ASYNC110  # requests run in between
                    await asyncio.sleep(0)
                sweep_at = loop.time() + SWEEP_S
            await self._writer.write()
        await self._writer.write_last()
