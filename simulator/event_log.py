"""The batches that were published, by number: what can be replayed, what got lost on the way.

1. Every batch takes the next number, whether it arrives or not: a lost one shows as a gap.
2. The numbers start again when the engine restarts, and nothing from before the restart can be replayed.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Batch:
    sequence: int
    payload: bytes


class EventLog:
    """Numbers from *first* on; keeps the last *limit* batches."""

    def __init__(self, *, first: int = 0, limit: int = 10_000) -> None:
        self._first = first
        self._next = first
        self._kept: deque[Batch] = deque(maxlen=limit)
        self._to_lose = 0
        self._lost_can_be_replayed = True

    @property
    def next_sequence(self) -> int:
        """Sequence number of the next batch."""
        return self._next

    @property
    def kept(self) -> int:
        """Number of batches that can be replayed."""
        return len(self._kept)

    @property
    def to_lose(self) -> int:
        """Number of the next batches that will not arrive."""
        return self._to_lose

    def lose(self, count: int, *, can_be_replayed: bool) -> None:
        """Drop the next *count* batches; 0: deliver all again."""
        self._to_lose = count
        self._lost_can_be_replayed = can_be_replayed

    def add(self, payload: bytes) -> Batch | None:
        """Number *payload*; the batch to send, or ``None`` if it gets lost."""
        batch = Batch(self._next, payload)
        self._next += 1
        is_lost = self._to_lose > 0
        if is_lost:
            self._to_lose -= 1
        if not is_lost or self._lost_can_be_replayed:
            self._kept.append(batch)
        return None if is_lost else batch

    def since(self, sequence: int) -> Iterator[Batch]:
        """Return the kept batches from *sequence* on, oldest first."""
        return (batch for batch in self._kept if batch.sequence >= sequence)

    def forget(self) -> None:
        """Drop all published events from the replay buffer."""
        self._kept.clear()

    def restart(self) -> None:
        """Begin a new life."""
        self._kept.clear()
        self._next = self._first
        self._to_lose = 0
