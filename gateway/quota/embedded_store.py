"""Quotas of one gateway, in memory and in one SQLite file: nothing but the file is needed, and a kill is survived."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

from gateway.errors import StoreAway
from gateway.ledger.entry import Draft, Entry
from gateway.quota import marks
from gateway.quota.carrying_on import carry_to_its_end
from gateway.quota.limit import Charge, Granted, Refused
from gateway.quota.meter import Meter
from gateway.quota.meters import Meters
from gateway.quota.seats import Counted, Desk, Seats, Taken
from gateway.storage.sqlite_file import SqliteFile

_log = logging.getLogger(__name__)

BATCH_S = 0.05
"""Entries and marks that nobody waits for are written at most this late."""
BATCH_ENTRIES: Final = 1000
"""So many are written at once; they make one transaction."""
RETRY_S = 0.5
"""After a failure to write."""
MOST_ENTRIES: Final = 50_000
"""That wait for a file that cannot be written: some 50 MB. What comes then is lost, counted, and logged."""
PATIENCE_S = 10.0
"""For the commit of a mark; longer than another process may hold the file."""
SWEEP_S = 60.0
"""Between two looks for leases that ended and limits that nobody uses."""
LAST_TRIES = 3
"""To write what is left at the end."""

Book = Callable[[sqlite3.Connection, Sequence[Entry]], None]
"""Writes entries to the ledger, in the transaction that is open."""


class EmbeddedQuotaStore(Desk):
    """A `QuotaStore`. One gateway may use the file; commands may beside it.

    Limits are decided in memory; the file holds marks that they stay below (`gateway.quota.marks`), so most requests
    write nothing. One that crosses a mark is granted when the next is committed, about a millisecond later. Entries
    are written in batches, together with the marks of what they settled.

    A kill of the process loses what was not written: entries of the last `BATCH_S`, and what requests that ended in it
    used beyond their estimates. Requests that were in flight have no entry, as they died with the process and got no
    whole answer; what was likely of them stays counted, and what budgets had reserved beyond that is given back by the
    next process (`marks.reclaim`). A clean end loses nothing.

    `run` must be running: it is what writes.
    """

    def __init__(self, file: SqliteFile, book: Book, *, clock: Callable[[], float], lease_s: float) -> None:
        """*clock* gives seconds since 1970.

        *lease_s*: longer than any request takes. A reservation that is never settled ends after it, as its process
        has forgotten it; one of a process that was killed ends with that.
        """
        self._file = file
        self._book = book
        self._clock = clock
        self._lease_s = lease_s
        self._meters = Meters(alert=marks.NEVER)
        self._dirty: dict[Meter, None] = {}
        """Whose mark is due, in the order in which they became so."""
        self._changed: dict[Meter, None] = {}
        """Of which the file does not know what requests that run have reserved and will hardly use."""
        self._entries: list[Draft] = []
        self._most_rows = BATCH_ENTRIES
        self._waiting: list[asyncio.Future[None]] = []
        """Requests that wait for a mark."""
        self._wanted = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_ending = False
        self._is_failing = False
        self._removes_ended = False
        self.dropped_entries = 0
        """That could not be written, and had no place to wait."""

    async def open(self) -> None:
        """Go on from what the file holds. To be awaited before anything else.

        Raises:
            StoreAway: the file cannot be used.
        """
        now = self._clock()

        def read(connection: sqlite3.Connection) -> None:
            marks.create(connection)
            marks.reclaim(connection, now)
            self._meters.restore(marks.read(connection, now))

        await self._file.run(read)

    @property
    def is_degraded(self) -> bool:
        """Whether the file could not be written the last time. Limits hold all the same."""
        return self._is_failing

    @property
    def waiting_entries(self) -> int:
        """That are not written yet."""
        return len(self._entries)

    def reserve_at_once(
        self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft
    ) -> Granted | Refused | None:
        decision = self._decided(team, reservation, charges, lost)
        if self._meters.alerted and self._needed(reservation):
            self._meters.cancel(reservation)
            return None
        return decision

    def seats(self, reservation: str, counted: Sequence[Counted]) -> Seats | None:
        held = self._meters.held(reservation)
        return None if held is None else Seats(self, counted, held.meters)

    def now(self) -> float:
        return self._clock()

    def take(self, taken: Taken, now: float) -> Granted | None:
        taken.until = now + self._lease_s
        seats, meters = taken.seats, self._meters
        if seats is None or not meters.take(taken, now):
            return None
        if meters.alerted:
            self._note_alerted()
            if any(seat.meter.value > seat.meter.mark for seat in seats.each):
                meters.give_back(taken, one=0.0, prompt=0.0, completion=0.0, both=0.0, usd=0.0)
                return None  # somebody has to wait for the mark
        self._note_changed_of(seats)
        return seats.granted

    def give_back(
        self, taken: Taken, entry: Draft, *, one: float, prompt: float, completion: float, both: float, usd: float
    ) -> None:
        meters = self._meters
        if meters.give_back(taken, one=one, prompt=prompt, completion=completion, both=both, usd=usd):
            if meters.alerted:
                self._note_alerted()
            seats = taken.seats
            if seats is not None:
                self._note_changed_of(seats)
            self._add(entry)

    async def reserve(self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft) -> Granted | Refused:
        decision = self._decided(team, reservation, charges, lost)
        if self._meters.alerted and (needed := self._needed(reservation)):
            await self._committed(reservation, needed)
        return decision

    def settle(self, team: str, reservation: str, charges: Sequence[Charge], entry: Draft) -> None:  # noqa: ARG002
        held = self._meters.settle(reservation, charges)
        if held is None:
            return
        self._note_changed(held.meters)
        if self._meters.alerted:
            self._note_alerted()
        self._add(entry)

    def book(self, team: str, entry: Draft) -> None:  # noqa: ARG002
        self._add(entry)

    async def spent(self, team: str, charges: Sequence[Charge]) -> list[float]:
        return self._meters.spent(team, charges, self._clock())

    async def give(self, team: str, charges: Sequence[Charge]) -> None:
        for meter in self._meters.give(team, charges, self._clock()):
            self._dirty[meter] = None  # else a kill would take it back
        if self._timer is None:
            self._set_timer(BATCH_S)

    async def run(self) -> None:
        # A transaction that has begun is not left: nobody would know whether it was committed.
        await carry_to_its_end(self._write_until_end(), self._end)

    def _end(self) -> None:
        self._is_ending = True
        self._wanted.set()

    def sweep(self) -> None:
        """Settle what nobody will settle any more, and forget limits that are not in use; `run` does it each minute."""
        now = self._clock()
        for held in self._meters.expire(now):
            if held.lost is not None:
                self._add(held.lost())  # here: it looks at what only this thread may see
        for taken in self._meters.expire_taken(now):
            self._add(taken())
        self._meters.forget(now)
        self._removes_ended = True

    def _decided(self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft) -> Granted | Refused:
        now = self._clock()
        decision = self._meters.reserve(team, reservation, charges, now, until=now + self._lease_s, lost=lost)
        held = self._meters.held(reservation)
        if held is not None:
            self._note_changed(held.meters)
        return decision

    def _note_changed(self, meters: Sequence[Meter]) -> None:
        """The file is to know, with the next batch, what of them will hardly be used."""
        for meter in meters:
            if meter.unlikely != meter.noted:
                self._changed[meter] = self._dirty[meter] = None
        if self._changed and self._timer is None:
            self._set_timer(BATCH_S)

    def _note_changed_of(self, seats: Seats) -> None:
        """As `_note_changed`, of the meters that *seats* are of."""
        for seat in seats.each:
            if seat.period and seat.meter.unlikely != seat.meter.noted:
                self._changed[seat.meter] = self._dirty[seat.meter] = None
        if self._changed and self._timer is None:
            self._set_timer(BATCH_S)

    def _needed(self, reservation: str) -> list[tuple[Meter, float]]:
        """Of meters that were alerted: those that went beyond their marks, and how far *reservation* made them go."""
        self._note_alerted()
        held = self._meters.held(reservation)
        return [] if held is None else [(meter, meter.value) for meter in held.meters if meter.value > meter.mark]

    def _add(self, entry: Draft) -> None:
        if len(self._entries) >= MOST_ENTRIES:
            if self.dropped_entries == 0:
                _log.error("the ledger cannot be written: %d entries wait, and what comes is lost", MOST_ENTRIES)
            self.dropped_entries += 1
            return
        self._entries.append(entry)
        if len(self._entries) == BATCH_ENTRIES:
            self._wanted.set()
        elif self._timer is None:
            self._set_timer(BATCH_S)

    def _note_alerted(self) -> None:
        """The marks of those that came near theirs, or beyond, are due."""
        for meter in self._meters.alerted:
            meter.alert = meter.mark  # beyond that, every request is to be heard of: it waits
            self._dirty[meter] = None
        self._meters.alerted.clear()
        if self._timer is None:
            self._set_timer(BATCH_S)

    def _set_timer(self, wait_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._wanted.set()

    async def _committed(self, reservation: str, needed: Sequence[tuple[Meter, float]]) -> None:
        """Wait until marks are in the file that cover what is *needed*; if they cannot be, give the reservation back.

        What refunds made unnecessary meanwhile is not waited for, nor a period that is over. Nobody waits while the
        file cannot be written: it is tried again and again without them.
        """
        if self._is_failing:
            self._meters.cancel(reservation)
            raise StoreAway("The file of quotas cannot be written", retry_after_s=RETRY_S)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while any(min(value, meter.value) > meter.mark and not meter.is_past for meter, value in needed):
                    done = asyncio.get_running_loop().create_future()
                    self._waiting.append(done)
                    self._wanted.set()
                    await done
        except TimeoutError:
            self._meters.cancel(reservation)
            raise StoreAway("The file of quotas does not take what is written") from None
        except BaseException:
            self._meters.cancel(reservation)
            raise

    async def _write_until_end(self) -> None:
        while not self._is_ending:
            try:
                async with asyncio.timeout(SWEEP_S):
                    await self._wanted.wait()
            except TimeoutError:
                self.sweep()
            self._wanted.clear()
            await self._write()
        for _ in range(LAST_TRIES):
            if await self._write() and await self._write_exactly():
                return
        _log.error("the last %d entries of the ledger are lost: the file cannot be written", len(self._entries))

    async def _write(self) -> bool:
        """Write what is due, until nobody waits; False: the file cannot be written."""
        while self._waiting or self._dirty or self._changed or self._entries or self._removes_ended:
            if not await self._write_batch():
                self._restart_timer(RETRY_S)
                return False
            if not self._waiting and len(self._entries) < self._most_rows:
                break
        if self._dirty or self._entries:
            self._restart_timer(BATCH_S)
        return True

    async def _write_batch(self) -> bool:
        now = self._clock()
        due = self._due(now)
        entries = self._entries[: self._most_rows]
        waiting, self._waiting = self._waiting, []
        changed = [(meter, meter.unlikely) for meter in self._changed if not meter.is_past]
        self._changed.clear()
        removes, self._removes_ended = self._removes_ended, False

        def act(connection: sqlite3.Connection) -> None:
            if removes:
                marks.remove_ended(connection, now)
            if due:
                marks.write(connection, [marks.state_of(meter, mark) for meter, mark in due])
            if changed:
                marks.note_unlikely(connection, [marks.unlikely_of(meter, units) for meter, units in changed])
            if entries:
                self._book(connection, [entry() for entry in entries])

        try:
            await self._file.run(act)
        except Exception as fault:  # noqa: BLE001  # whatever it is, the next request needs its mark
            self._put_back(due, changed)
            self._removes_ended = removes
            if entries and not isinstance(fault, StoreAway):
                self._waiting = waiting + self._waiting
                self._leave_out(entries, fault)
                return True
            self._fail(waiting, fault)
            return False
        _note_written(due, changed)
        del self._entries[: len(entries)]
        self._most_rows = min(2 * self._most_rows, BATCH_ENTRIES)
        if self._is_failing:
            self._is_failing = False
            _log.warning("the file of quotas can be written again")
        for done in waiting:
            if not done.done():  # its request may have gone away
                done.set_result(None)
        return True

    def _due(self, now: float) -> list[tuple[Meter, float]]:
        """The next marks of those whose marks are due."""
        due = [(meter, marks.mark_of(meter, now)) for meter in self._dirty if not meter.is_past]
        self._dirty.clear()
        for meter, mark in due:
            if mark < meter.mark:  # from now on: what is granted meanwhile is not to pass what will stand there
                marks.put(meter, mark)
        return due

    def _put_back(self, due: Sequence[tuple[Meter, float]], changed: Sequence[tuple[Meter, float]]) -> None:
        """These could not be written."""
        self._dirty = dict.fromkeys(meter for meter, _ in due) | self._dirty
        self._changed = dict.fromkeys(meter for meter, _ in changed) | self._changed

    def _leave_out(self, entries: Sequence[Draft], fault: Exception) -> None:
        """The ledger does not take one of *entries*: find out which, and go on without it."""
        if len(entries) > 1:
            self._most_rows = 1
            return
        del self._entries[0]
        self.dropped_entries += 1
        _log.error("an entry of the ledger is lost: %s", type(fault).__name__)

    def _fail(self, waiting: Sequence[asyncio.Future[None]], fault: Exception) -> None:
        if not self._is_failing:
            self._is_failing = True
            reason = fault.message if isinstance(fault, StoreAway) else type(fault).__name__
            _log.error("the file of quotas cannot be written: %s", reason)
        for done in waiting:
            if not done.done():
                done.set_exception(StoreAway("The file of quotas cannot be written"))

    async def _write_exactly(self) -> bool:
        """What is left, and where meters stand instead of marks; False: the file cannot be written."""
        while self._entries:
            if not await self._write_batch():
                return False
        now = self._clock()
        states = list(self._meters.states(now))
        try:
            await self._file.run(lambda connection: marks.replace(connection, states))
        except Exception:  # noqa: BLE001  # whatever it is, it may be tried again
            return False
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        return True

    def _restart_timer(self, wait_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._set_timer(wait_s)


def _note_written(due: Sequence[tuple[Meter, float]], changed: Sequence[tuple[Meter, float]]) -> None:
    """These marks, and what is unlikely, stand in the file."""
    for meter, mark in due:
        marks.put(meter, mark)
    for meter, units in changed:
        meter.noted = units
