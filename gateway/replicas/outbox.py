"""What this gateway has given to workers, and what of that is still to be told to its replicas.

Telling never holds anything up: what happens is put down in a bounded buffer. While nobody listens nothing is put
down at all; entries are numbered all the same, so whoever comes sees that something is missing, and asks.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from gateway.replicas.wire import Batch, Began, Booked, Ended, Entry, Snapshot
from routing.booking import Booking, Ending, Outcome

MOST_ENTRIES = 8192
MOST_BYTES = 16 * 2**20
"""In the buffer. Beyond that the oldest go; replicas see the gap, and ask for a snapshot."""
BATCH_ENTRIES = 256
BATCH_BYTES = 512 * 2**10
"""In one message; one entry may be longer."""
SNAPSHOT_BYTES = 4 * 2**20
"""Of hashes in one snapshot; of what is beyond them only the load is told."""


class Outbox:
    """Every call but `snapshot` is O(1), or O(what it answers)."""

    def __init__(self, *, most_entries: int = MOST_ENTRIES) -> None:
        self.woken = asyncio.Event()
        """Set when there is something to be sent; whoever sends it clears it."""
        self.is_heard = False
        """Whether anybody listens."""
        self.last = 0
        """The number of the last entry, told or not."""
        self.dropped = 0
        """Entries that went because the buffer was full, or that nobody took. It never shrinks."""
        self._most_entries = most_entries
        self._buffer: deque[Entry] = deque()
        self._bytes = 0
        self._own: dict[Booking, tuple[int, str]] = {}

    def witness(self, model: str) -> "ModelWitness":
        """What the fleet of *model* tells of its bookings."""
        return ModelWitness(self, model)

    def __len__(self) -> int:
        """Bookings that are not over."""
        return len(self._own)

    @property
    def sent(self) -> int:
        """The number of the last entry that is not waiting to be sent."""
        return self.last - len(self._buffer)

    def take(self) -> Batch | None:
        """The oldest of what is to be sent, as much as one message should hold; None if there is nothing."""
        if not self._buffer:
            return None
        first, size = self.sent + 1, _size(self._buffer[0])
        entries = [self._pop()]
        while self._buffer and len(entries) < BATCH_ENTRIES:
            size += _size(self._buffer[0])
            if size > BATCH_BYTES:
                break
            entries.append(self._pop())
        return Batch(first, tuple(entries))

    def snapshot(self) -> Snapshot:
        """All that is not over. O(bookings)."""
        room, bookings = SNAPSHOT_BYTES, []
        for booking, (number, model) in reversed(self._own.items()):  # the latest ones matter most
            has_begun = booking.first_byte_at is not None
            booked = _booked(number, model, booking, has_begun=has_begun, with_hashes=room > 0)
            room -= booked.hashes_bytes
            bookings.append(booked)
        return Snapshot(self.last, tuple(reversed(bookings)))

    def lost(self, entries: int) -> None:
        """So many that were taken did not reach anybody."""
        self.dropped += entries

    def forget(self) -> None:
        """Nobody listens any more: what was to be sent is of no use."""
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
        self._put(lambda: Ended(own[0], keep, outcome.completion_tokens or 0 if has_answer else 0))

    def _put(self, entry: Callable[[], Entry]) -> None:
        self.last += 1
        if not self.is_heard:
            return
        made = entry()
        self._buffer.append(made)
        self._bytes += _size(made)
        while len(self._buffer) > self._most_entries or self._bytes > MOST_BYTES:
            self._pop()
            self.dropped += 1
        self.woken.set()

    def _pop(self) -> Entry:
        entry = self._buffer.popleft()
        self._bytes -= _size(entry)
        return entry


class ModelWitness:
    """Implements `routing.witness.Witness` for the fleet of one model."""

    def __init__(self, outbox: Outbox, model: str) -> None:
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
