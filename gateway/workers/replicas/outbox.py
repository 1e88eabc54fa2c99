"""Reservations that this gateway holds on workers, and log entries about them that were not sent yet.

Requests never wait for the outbox, because its buffer is bounded. While no replica listens, entries are numbered but
not stored. A new replica sees the gap in the numbers and requests a snapshot.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from gateway.workers.replicas.wire import Began, Booked, BookingSnapshot, Entry, EntryBatch, Released
from routing.booking import Booking, Ending, Outcome

MAX_ENTRIES = 8192
MAX_BYTES = 16 * 2**20
"""Maximum buffer size in bytes. Above it, the oldest entries are dropped. Replicas then see a gap and request a
snapshot.
"""
BATCH_ENTRIES = 256
BATCH_BYTES = 512 * 2**10
"""Maximum size of one message in bytes. A single entry is allowed to exceed it."""
SNAPSHOT_BYTES = 4 * 2**20
"""Maximum size in bytes of the hashes in one snapshot. Further reservations are listed without hashes."""


class BookingOutbox:
    """Buffer of log entries with limited size. Methods are O(1) or linear in the result, except `snapshot`."""

    def __init__(self, *, max_entries: int = MAX_ENTRIES) -> None:
        self.woken = asyncio.Event()
        """Event that is set when there is something to send. The sender clears it."""
        self.is_heard = False
        """Whether at least one other replica is listening."""
        self.last = 0
        """Number of the last log entry, whether or not it was sent."""
        self.dropped = 0
        """Number of log entries that were dropped because the buffer was full, or that no replica received."""
        self._max_entries = max_entries
        self._buffer: deque[Entry] = deque()
        self._bytes = 0
        self._own: dict[Booking, tuple[int, str]] = {}

    def observer(self, model: str) -> "ModelBookingObserver":
        """Return an observer that records the reservations in the fleet for *model*."""
        return ModelBookingObserver(self, model)

    def __len__(self) -> int:
        """Return the number of open reservations."""
        return len(self._own)

    @property
    def sent(self) -> int:
        """Number of the log entry before the first entry that waits to be sent."""
        return self.last - len(self._buffer)

    def take(self) -> EntryBatch | None:
        """Remove and return the oldest entries, up to the size of one message. If the buffer is empty, return None."""
        if not self._buffer:
            return None
        first, size = self.sent + 1, _size(self._buffer[0])
        entries = [self._pop()]
        while self._buffer and len(entries) < BATCH_ENTRIES:
            size += _size(self._buffer[0])
            if size > BATCH_BYTES:
                break
            entries.append(self._pop())
        return EntryBatch(first, tuple(entries))

    def snapshot(self) -> BookingSnapshot:
        """Return all open reservations. O(reservations)."""
        room, bookings = SNAPSHOT_BYTES, []
        for booking, (number, model) in reversed(self._own.items()):  # the latest ones matter most
            has_begun = booking.first_byte_at is not None
            booked = _booked(number, model, booking, has_begun=has_begun, with_hashes=room > 0)
            room -= booked.hashes_bytes
            bookings.append(booked)
        return BookingSnapshot(self.last, tuple(reversed(bookings)))

    def lost(self, entries: int) -> None:
        """Record that *entries* entries were removed from the buffer but could not be sent."""
        self.dropped += entries

    def forget(self) -> None:
        """Drop all waiting entries, because no other replica is listening."""
        self.is_heard = False
        self._buffer.clear()
        self._bytes = 0

    # ---- what witnesses tell

    def booked(self, model: str, booking: Booking) -> None:
        number = self.last + 1
        self._own[booking] = number, model
        self._put(lambda: _booked(number, model, booking, has_begun=False, with_hashes=True))

    def first_byte(self, booking: Booking) -> None:
        own = self._own.get(booking)
        if own is not None:
            self._put(lambda: Began(own[0]))

    def released(self, booking: Booking, outcome: Outcome) -> None:
        own = self._own.pop(booking, None)
        if own is None:
            return  # it was taken for lost, and ended all the same
        has_answer = outcome.ending is Ending.ANSWERED
        keep = has_answer or not booking.is_uncomputed(failed=outcome.ending is Ending.FAILED)
        self._put(lambda: Released(own[0], keep, outcome.completion_tokens or 0 if has_answer else 0))

    def _put(self, entry: Callable[[], Entry]) -> None:
        self.last += 1
        if not self.is_heard:
            return
        made = entry()
        self._buffer.append(made)
        self._bytes += _size(made)
        while len(self._buffer) > self._max_entries or self._bytes > MAX_BYTES:
            self._pop()
            self.dropped += 1
        self.woken.set()

    def _pop(self) -> Entry:
        entry = self._buffer.popleft()
        self._bytes -= _size(entry)
        return entry


class ModelBookingObserver:
    """Recorder of the reservations in one model's fleet. Implements `routing.booking_observer.BookingObserver`."""

    def __init__(self, outbox: BookingOutbox, model: str) -> None:
        self._outbox = outbox
        self._model = model

    def booked(self, booking: Booking) -> None:
        self._outbox.booked(self._model, booking)

    def first_byte(self, booking: Booking) -> None:
        self._outbox.first_byte(booking)

    def released(self, booking: Booking, outcome: Outcome) -> None:
        self._outbox.released(booking, outcome)


def _booked(number: int, model: str, booking: Booking, *, has_begun: bool, with_hashes: bool) -> Booked:
    request = booking.request
    with_hashes = with_hashes and request.writes_cache
    return Booked(
        number,
        model,
        booking.worker,
        booking.uncached_tokens,
        request.output_tokens,
        request.streams,
        has_begun,
        request.prefix.hashes if with_hashes else b"",
        tuple([(prefix.block_tokens, prefix.hashes) for prefix in request.exact]) if with_hashes else (),
    )


def _size(entry: Entry) -> int:
    return entry.size_bytes if isinstance(entry, Booked) else 16
