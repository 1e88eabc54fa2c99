"""Table of meter states in memory that several processes of one gateway share.

The table is one block of 8-byte words: a header, the heads of hash chains, and slots. A slot holds the state of one
limit in one period:

    word    0, 1        digest of the team, the limit and the period
    word    2           next slot of the hash chain plus 1, or 0
    word    3           generation: counts how often the slot was reused
    word    4 to 8      value, unlikely, checkpoint, alert, ends (see `Meter`)
    word    9           kind: 0 free, 1 rate, 2 period, 3 concurrent
    word    10 ...      what each seat holds: active requests of a rate or concurrency limit, unlikely units of a period

Checkpoints and alerts change only when the file is written, so a meter reads them again only if the *edition* has
changed, a counter in the header.

Each process has a *seat*. If it is killed, the supervisor gives back what the seat holds (`reclaim`). The kernel
releases the locks of a killed process (fcntl(2), record locks). If the kill interrupts a change of a slot, up to one
request of this slot is counted wrongly, except for concurrency limits, which stay exact.
"""

import fcntl
import math
import mmap
import os
import struct
import tempfile
from hashlib import blake2b
from typing import Final

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.quota.meter import Meter

WORD: Final = 8
CAPACITY: Final = 2**17
"""Number of slots. Memory is used only for slots that were in use: about 200 bytes each."""
STEP: Final = 512
"""Number of slots that are examined while the table is locked, which takes less than a millisecond."""
PAST_S: Final = 3600.0
"""Seconds for which the slot of a period that has ended is kept for requests that began in the period."""

_SEATS: Final = 0
_CAPACITY: Final = 1
_FIRST_FREE: Final = 2
"""Header word: first slot of the list of free slots plus 1, or 0. The list uses the words of hash chains."""
_USED: Final = 3
"""Header word: number of slots that were ever in use."""
_IS_RESTORED: Final = 4
_EDITION: Final = 5
_HEADER: Final = 8
"""Number of header words before one word for each seat, which is 1 while a process has the seat."""

_NEXT: Final = 2
_GENERATION: Final = 3
_VALUE: Final = 4
_UNLIKELY: Final = 5
_CHECKPOINT: Final = 6
_ALERT: Final = 7
_ENDS: Final = 8
_KIND: Final = 9
_HELD: Final = 10

_FREE: Final = 0
_RATE: Final = 1
_PERIOD: Final = 2
_CONCURRENT: Final = 3

_DIGEST: Final = struct.Struct("=2q")


class MeterTable:
    """View of the table behind the file *descriptor*, for the process with *seat*. Only one thread may use it.

    Call `lock` before each method that says so, and `unlock` after it. Lock and unlock take about a microsecond, and
    reading or writing a meter 0.2 us.
    """

    def __init__(self, descriptor: int, seat: int) -> None:
        self._descriptor = descriptor
        view = memoryview(mmap.mmap(descriptor, 0))
        self._ints = view.cast("q")
        self._floats = view.cast("d")
        self._seat = seat
        self._seats = self._ints[_SEATS]
        self._capacity = self._ints[_CAPACITY]
        self._heads = _HEADER + self._seats
        self._slots = self._heads + self._capacity
        self._words = _HELD + self._seats
        self._swept = 0

    @property
    def descriptor(self) -> int:
        """File descriptor that another process can inherit, to see the same table."""
        return self._descriptor

    @property
    def is_restored(self) -> bool:
        """Whether a process has already filled the table with the states in the file."""
        return self._ints[_IS_RESTORED] == 1

    def note_restored(self) -> None:
        self._ints[_IS_RESTORED] = 1

    @property
    def is_alone(self) -> bool:
        """Whether no other process has a seat."""
        return all(each == self._seat or not self._ints[_HEADER + each] for each in range(self._seats))

    def sit_down(self) -> None:
        """Take the seat of this process."""
        self._ints[_HEADER + self._seat] = 1

    def stand_up(self) -> None:
        """Free the seat of this process, which changes no limits any more."""
        self._ints[_HEADER + self._seat] = 0

    def lock(self) -> None:
        """Wait until no other process uses the table. A process holds the lock for some microseconds."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, 0)

    def unlock(self) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, 0)

    def try_writing(self) -> bool:
        """Become the only process that writes checkpoints to the file. Return whether no other process is."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1)
        except OSError:
            return False
        return True

    def end_writing(self) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, 1)

    # ---- while the table is locked

    def load(self, meter: Meter) -> None:
        """Give *meter* the state that all processes have counted. The table must be locked."""
        at, floats = meter.slot, self._floats
        if self._ints[at + _GENERATION] != meter.generation:  # the slot was freed, because the limit was unused
            self.place(meter)
            return
        meter.value = floats[at + _VALUE]
        if not (meter.is_rate or meter.is_concurrent):
            meter.unlikely = floats[at + _UNLIKELY]
        if meter.edition != self._ints[_EDITION]:
            meter.edition = self._ints[_EDITION]
            meter.checkpoint = floats[at + _CHECKPOINT]
            meter.alert = floats[at + _ALERT]

    def store(self, meter: Meter, requests: float = 0.0) -> None:
        """Write the state of *meter*, which was loaded since the table was locked, and add to what the seat holds.
        *requests* is the number of requests that the seat holds in addition.
        """
        at, floats = meter.slot, self._floats
        if meter.is_rate or meter.is_concurrent:
            if requests:
                held = at + _HELD + self._seat
                floats[held] = floats[held] + requests
        else:
            more = meter.unlikely - floats[at + _UNLIKELY]
            if more:
                held = at + _HELD + self._seat
                floats[held] = floats[held] + more
                floats[at + _UNLIKELY] = meter.unlikely
        floats[at + _VALUE] = meter.value

    def store_marks(self, meter: Meter) -> None:
        """Write only `checkpoint` and `alert` of *meter*. The table must be locked."""
        ints, at = self._ints, meter.slot
        if ints[at + _GENERATION] == meter.generation:
            self._floats[at + _CHECKPOINT] = meter.checkpoint
            self._floats[at + _ALERT] = meter.alert
            ints[_EDITION] += 1

    def place(self, meter: Meter) -> None:
        """Find or create the slot of *meter*, and load its state. The table must be locked.

        Raises:
            StoreUnavailable: if all slots are in use.
        """
        ints = self._ints
        digest = _digest_of(meter)
        head = self._heads + digest[0] % self._capacity
        number = ints[head]
        while number:
            at = self._slots + (number - 1) * self._words
            if ints[at] == digest[0] and ints[at + 1] == digest[1]:
                break
            number = ints[at + _NEXT]
        else:
            at = self._taken(meter, digest, head)
        meter.slot, meter.generation = at, ints[at + _GENERATION]
        meter.ends = self._floats[at + _ENDS]
        meter.edition = -1
        self.load(meter)

    def release(self, meter: Meter) -> None:
        """Free the slot of *meter* if nothing is counted there. The table must be locked."""
        if self._ints[meter.slot + _GENERATION] == meter.generation and self._is_blank(meter.slot):
            self._free(meter.slot)

    # ---- which lock the table themselves

    def free_unused(self, now: float) -> bool:
        """Free some slots of limits that are unused at *now*. Return whether more slots have to be examined."""
        begin, end = self._swept, min(self._swept + STEP, self._ints[_USED])
        self.lock()
        try:
            for number in range(begin, end):
                at = self._slots + number * self._words
                if self._is_unused(at, now):
                    self._free(at)
        finally:
            self.unlock()
        self._swept = 0 if end == self._ints[_USED] else end
        return self._swept > 0

    def reclaim(self, seat: int) -> None:
        """Give back what the process with *seat* holds, which has ended: requests in flight, and units of budgets
        beyond the likely use. Its seat is then free.
        """
        for begin in range(0, self._ints[_USED], STEP):
            self.lock()
            try:
                for number in range(begin, min(begin + STEP, self._ints[_USED])):
                    self._reclaim(self._slots + number * self._words, seat)
            finally:
                self.unlock()
        self._ints[_HEADER + seat] = 0

    def _reclaim(self, at: int, seat: int) -> None:
        floats, held = self._floats, at + _HELD
        units = floats[held + seat]
        if units == 0.0:
            return
        floats[held + seat] = 0.0
        left = math.fsum(floats[held + each] for each in range(self._seats))
        kind = self._ints[at + _KIND]
        if kind == _CONCURRENT:
            floats[at + _VALUE] = left
        elif kind == _PERIOD:
            floats[at + _VALUE] = max(0.0, floats[at + _VALUE] - units)
            floats[at + _UNLIKELY] = left

    def _taken(self, meter: Meter, digest: tuple[int, int], head: int) -> int:
        """Fill a free slot for *meter*, in the chain of *head*, and return its first word."""
        ints = self._ints
        number = ints[_FIRST_FREE]
        if number:
            at = self._slots + (number - 1) * self._words
            ints[_FIRST_FREE] = ints[at + _NEXT]
        elif ints[_USED] < self._capacity:
            number = ints[_USED] = ints[_USED] + 1
            at = self._slots + (number - 1) * self._words
        else:
            raise StoreUnavailable("The table of limits is full", retry_after_s=60.0)
        unmarked = math.inf if meter.is_concurrent else -math.inf
        ints[at + _GENERATION] += 1
        floats = self._floats
        for word in (_VALUE, _UNLIKELY, *range(_HELD, self._words)):
            floats[at + word] = 0.0
        floats[at + _CHECKPOINT] = floats[at + _ALERT] = unmarked
        floats[at + _ENDS] = meter.ends
        ints[at + _KIND] = _RATE if meter.is_rate else _CONCURRENT if meter.is_concurrent else _PERIOD
        ints[at], ints[at + 1] = digest
        ints[at + _NEXT] = ints[head]
        ints[head] = number
        return at

    def _free(self, at: int) -> None:
        ints = self._ints
        number = (at - self._slots) // self._words + 1
        before = self._heads + ints[at] % self._capacity
        while ints[before] != number:
            before = self._slots + (ints[before] - 1) * self._words + _NEXT
        ints[before] = ints[at + _NEXT]
        ints[at + _KIND] = _FREE
        ints[at + _GENERATION] += 1
        ints[at + _NEXT] = ints[_FIRST_FREE]
        ints[_FIRST_FREE] = number

    def _is_blank(self, at: int) -> bool:
        return self._ints[at + _KIND] != _FREE and self._floats[at + _VALUE] == 0.0

    def _is_unused(self, at: int, now: float) -> bool:
        kind, floats = self._ints[at + _KIND], self._floats
        if kind == _RATE:
            return floats[at + _VALUE] <= now and not any(floats[at + _HELD + each] for each in range(self._seats))
        if kind == _PERIOD:
            return floats[at + _ENDS] + PAST_S <= now
        return kind == _CONCURRENT and floats[at + _VALUE] == 0.0


def new_table(seats: int, *, capacity: int = CAPACITY) -> MeterTable:
    """Return a new table for *seats* processes, as the first seat sees it. The caller closes its descriptor."""
    words = _HEADER + seats + capacity + capacity * (_HELD + seats)
    descriptor = _memory_file()
    os.ftruncate(descriptor, words * WORD)
    os.pwrite(descriptor, _DIGEST.pack(seats, capacity), 0)
    return MeterTable(descriptor, 0)


def _digest_of(meter: Meter) -> tuple[int, int]:
    text = f"{meter.team}\x00{meter.limit.id}\x00{meter.period}".encode()
    digest: tuple[int, int] = _DIGEST.unpack(blake2b(text, digest_size=16).digest())
    return digest


def _memory_file() -> int:
    """Open a file without a name. On Linux it is never on a disk (memfd_create(2))."""
    create = getattr(os, "memfd_create", None)
    if create is not None:
        return int(create("limits"))
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
