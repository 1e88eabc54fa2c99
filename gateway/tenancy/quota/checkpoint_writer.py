"""Write quota checkpoints and ledger entries to one SQLite file in batches."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger.entry import Draft, Entry
from gateway.tenancy.quota import checkpoints
from gateway.tenancy.quota.meter import Meter
from gateway.tenancy.quota.meters import Meters
from gateway.tenancy.quota.other_processes import OtherProcesses

_log = logging.getLogger(__name__)

BATCH_S = 0.05
"""Maximum delay in seconds of a write that delays no request."""
BATCH_ENTRIES: Final = 1000
"""Maximum number of ledger entries in one transaction."""
RETRY_S = 0.5
"""Seconds to wait after a failed write."""
MAX_ENTRIES: Final = 50_000
"""Maximum number of ledger entries to keep in memory while the file cannot be written, about 50 MB. Further entries are
dropped, counted and logged.
"""
PATIENCE_S = 10.0
"""Maximum seconds for which a request waits for the commit of a checkpoint. Other processes lock the file for a shorter
time.
"""
TURN_S = 0.002
"""Seconds to wait before a second attempt to write while another process writes."""
LAST_TRIES = 3
"""Number of attempts to write all remaining entries on shutdown."""

Book = Callable[[sqlite3.Connection, Sequence[Entry]], None]
"""Function that writes ledger entries in the open transaction."""


class CheckpointWriter:
    """Writer that collects changes that are not in the SQLite file yet, and writes them."""

    def __init__(
        self, file: SqliteFile, book: Book, meters: Meters, others: OtherProcesses, *, clock: Callable[[], float]
    ) -> None:
        """Create the writer. *others* write the same file. *clock* returns the time in seconds since 1970."""
        self._file = file
        self._book = book
        self._meters = meters
        self._others = others
        self._clock = clock
        self._dirty: dict[Meter, None] = {}
        """Meters whose checkpoints must be written, oldest first."""
        self._changed: dict[Meter, None] = {}
        """Meters for which the value of `unlikely` differs from the value in the file."""
        self._entries: list[Draft] = []
        self._max_rows = BATCH_ENTRIES
        self._waiting: list[asyncio.Future[None]] = []
        """Futures of requests that wait for the commit of a checkpoint."""
        self._wanted = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._removes_ended = False
        self.is_ending = False
        self.is_failing = False
        """Whether the last write to the quota file has failed."""
        self.dropped_entries = 0
        """Number of ledger entries that were lost because the file could not be written and the buffer was full."""

    @property
    def waiting_entries(self) -> int:
        return len(self._entries)

    def add(self, entry: Draft) -> None:
        """Add *entry* to the next batch for the ledger."""
        if len(self._entries) >= MAX_ENTRIES:
            if self.dropped_entries == 0:
                _log.error("the ledger cannot be written: %d entries wait, and further entries are lost", MAX_ENTRIES)
            self.dropped_entries += 1
            return
        self._entries.append(entry)
        if len(self._entries) == BATCH_ENTRIES:
            self._wanted.set()
        elif self._timer is None:
            self._set_timer(BATCH_S)

    def note_alerted(self) -> None:
        """Schedule a checkpoint for every meter in `Meters.alerted`, and empty this list."""
        for meter in self._meters.alerted:
            meter.alert = meter.checkpoint  # beyond the checkpoint, each request has to wait
            self._dirty[meter] = None
        self._meters.alerted.clear()
        if self._timer is None:
            self._set_timer(BATCH_S)

    def note_changed(self, meters: list[Meter]) -> None:
        """Schedule a write of `unlikely` for those of *meters* for which it has changed."""
        for meter in meters:
            if meter.unlikely != meter.noted:
                self._changed[meter] = self._dirty[meter] = None
        if self._changed and self._timer is None:
            self._set_timer(BATCH_S)

    def note_refunded(self, meters: Sequence[Meter]) -> None:
        """Schedule lower checkpoints for refunded meters, so that the refund is not lost if the process is killed."""
        for meter in meters:
            self._dirty[meter] = None
        if self._timer is None:
            self._set_timer(BATCH_S)

    def remove_ended(self) -> None:
        """Schedule the deletion of expired rows together with the next batch."""
        self._removes_ended = True

    async def wait_for_commit(self, needed: Sequence[tuple[Meter, float]]) -> None:
        """Wait until the file has a checkpoint for each meter in *needed* that covers the value paired with it.

        The wait skips meters whose period is over and values that a refund has lowered meanwhile.

        Raises:
            StoreUnavailable: if the file cannot be written. While writes are failing, this is raised at once, and `run`
                tries again.
        """
        if self.is_failing:
            raise StoreUnavailable("The quota file cannot be written", retry_after_s=RETRY_S)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while any(min(value, meter.value) > meter.checkpoint and not meter.is_past for meter, value in needed):
                    done = asyncio.get_running_loop().create_future()
                    self._waiting.append(done)
                    self._wanted.set()
                    await done
        except TimeoutError:
            raise StoreUnavailable("The quota file could not be written in time") from None

    async def wait_for_work(self) -> None:
        """Wait until there is something to write, or until `end` is called."""
        await self._wanted.wait()

    def end(self) -> None:
        self.is_ending = True
        self._wanted.set()

    async def write(self) -> bool:
        """Write all due data until no request is waiting. Return whether the file could be written."""
        self._wanted.clear()
        while self._waiting or self._dirty or self._changed or self._entries or self._removes_ended:
            if not await self._write_batch():
                self._restart_timer(RETRY_S)
                return False
            if not self._waiting and len(self._entries) < self._max_rows:
                break
        if self._dirty or self._entries:
            self._restart_timer(BATCH_S)
        return True

    async def write_last(self) -> None:
        """Write all remaining data on shutdown, with exact values in place of checkpoints."""
        for _ in range(LAST_TRIES):
            if await self.write() and await self._write_exactly():
                return
        _log.error("the last %d ledger entries are lost: the quota file cannot be written", len(self._entries))

    def _set_timer(self, wait_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _restart_timer(self, wait_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._set_timer(wait_s)

    def _ring(self) -> None:
        self._timer = None
        self._wanted.set()

    async def _write_batch(self) -> bool:
        """Write a batch while no other process writes, because the last written checkpoint must be the valid one."""
        while not self._others.begin_writing():  # noqa: ASYNC110  # no event reports that another process ends
            await asyncio.sleep(TURN_S)
        try:
            return await self._write_now()
        finally:
            self._others.end_writing()

    async def _write_now(self) -> bool:
        now = self._clock()
        self._others.refresh(list(self._dirty))
        due = self._due(now)
        entries = self._entries[: self._max_rows]
        waiting, self._waiting = self._waiting, []
        changed = [(meter, meter.unlikely) for meter in self._changed if not meter.is_past]
        self._changed.clear()
        removes, self._removes_ended = self._removes_ended, False

        def act(connection: sqlite3.Connection) -> None:
            if removes:
                checkpoints.remove_ended(connection, now)
            if due:
                checkpoints.write(connection, [checkpoints.state_of(meter, checkpoint) for meter, checkpoint in due])
            if changed:
                checkpoints.note_unlikely(
                    connection, [checkpoints.unlikely_of(meter, units) for meter, units in changed]
                )
            if entries:
                self._book(connection, [entry for draft in entries if (entry := draft()) is not None])

        try:
            await self._file.run(act)
        except Exception as fault:  # noqa: BLE001  # whatever it is, the next request needs its checkpoint
            self._put_back(due, changed)
            self._removes_ended = removes
            if entries and not isinstance(fault, StoreUnavailable):
                self._waiting = waiting + self._waiting
                self._leave_out(entries, fault)
                return True
            self._fail(waiting, fault)
            return False
        self._note_written(due, changed)
        del self._entries[: len(entries)]
        self._max_rows = min(2 * self._max_rows, BATCH_ENTRIES)
        if self.is_failing:
            self.is_failing = False
            _log.warning("the quota file can be written again")
        for done in waiting:
            if not done.done():  # its request may have gone away
                done.set_result(None)
        return True

    def _due(self, now: float) -> list[tuple[Meter, float]]:
        """Return the meters with due checkpoints, each with its next checkpoint."""
        due = [(meter, checkpoints.next_checkpoint(meter, now)) for meter in self._dirty if not meter.is_past]
        self._dirty.clear()
        # At once: grants during the write must not exceed a lower checkpoint.
        self._put([(meter, checkpoint) for meter, checkpoint in due if checkpoint < meter.checkpoint])
        return due

    def _note_written(self, due: Sequence[tuple[Meter, float]], changed: Sequence[tuple[Meter, float]]) -> None:
        self._put(due)
        for meter, units in changed:
            meter.noted = units

    def _put(self, due: Sequence[tuple[Meter, float]]) -> None:
        for meter, checkpoint in due:
            checkpoints.put(meter, checkpoint)
        self._others.publish_checkpoints([meter for meter, _ in due])

    def _put_back(self, due: Sequence[tuple[Meter, float]], changed: Sequence[tuple[Meter, float]]) -> None:
        """Schedule data again that could not be written. This data comes before newer data."""
        self._dirty = dict.fromkeys(meter for meter, _ in due) | self._dirty
        self._changed = dict.fromkeys(meter for meter, _ in changed) | self._changed

    def _leave_out(self, entries: Sequence[Draft], fault: Exception) -> None:
        """Drop the ledger entry that cannot be written. To find it, *entries* are written one at a time until the first
        failure.
        """
        if len(entries) > 1:
            self._max_rows = 1
            return
        del self._entries[0]
        self.dropped_entries += 1
        _log.error("a ledger entry could not be written and is lost: %s", type(fault).__name__)

    def _fail(self, waiting: Sequence[asyncio.Future[None]], fault: Exception) -> None:
        if not self.is_failing:
            self.is_failing = True
            reason = fault.message if isinstance(fault, StoreUnavailable) else type(fault).__name__
            _log.error("the quota file cannot be written: %s", reason)
        for done in waiting:
            if not done.done():
                done.set_exception(StoreUnavailable("The quota file cannot be written"))

    async def _write_exactly(self) -> bool:
        """Write the remaining ledger entries and the exact state of all meters. Return whether the file could be
        written.
        """
        while self._entries:
            if not await self._write_batch():
                return False
        self._others.leave()
        if not self._others.have_ended:
            return True  # they go on with the present checkpoints
        now = self._clock()
        try:
            written = await self._file.run(lambda connection: checkpoints.read(connection, now))
            states = [*self._meters.states(now), *self._others.exact(written)]
            await self._file.run(lambda connection: checkpoints.replace(connection, states))
        except Exception:  # noqa: BLE001  # whatever it is, it may be tried again
            return False
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        return True
