"""Numbered log of published event batches, with the batches that can be replayed and the batches that got lost.

1. Every batch gets the next sequence number, whether it is delivered or not. A lost batch shows as a gap.
2. The sequence numbers restart with the engine, and batches from before the restart cannot be replayed.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Batch:
    sequence: int
    payload: bytes


class EventLog:
    """Log of the last *limit* event batches. The first batch has the sequence number *first*."""

    def __init__(self, *, first: int = 0, limit: int = 10_000) -> None:
        self._first = first
        self._next = first
        self._kept: deque[Batch] = deque(maxlen=limit)
        self._to_lose = 0
        self._lost_can_be_replayed = True

    @property
    def next_sequence(self) -> int:
        """Sequence number of the next event batch."""
        return self._next

    @property
    def kept(self) -> int:
        """Number of event batches that can be replayed."""
        return len(self._kept)

    @property
    def to_lose(self) -> int:
        """Number of upcoming event batches that will not be delivered."""
        return self._to_lose

    def lose(self, count: int, *, can_be_replayed: bool) -> None:
        """Lose the next *count* event batches. If *count* is 0, deliver all batches from now on."""
        self._to_lose = count
        self._lost_can_be_replayed = can_be_replayed

    def add(self, payload: bytes) -> Batch | None:
        """Number *payload* and return the event batch to send, or None if the batch gets lost."""
        batch = Batch(self._next, payload)
        self._next += 1
        is_lost = self._to_lose > 0
        if is_lost:
            self._to_lose -= 1
        if not is_lost or self._lost_can_be_replayed:
            self._kept.append(batch)
        return None if is_lost else batch

    def since(self, sequence: int) -> Iterator[Batch]:
        """Return the stored event batches from the sequence number *sequence* on, oldest first."""
        return (batch for batch in self._kept if batch.sequence >= sequence)

    def forget(self) -> None:
        """Clear the buffer of replayable event batches."""
        self._kept.clear()

    def restart(self) -> None:
        """Restart the sequence numbers and clear the log, as a restarted engine does."""
        self._kept.clear()
        self._next = self._first
        self._to_lose = 0
