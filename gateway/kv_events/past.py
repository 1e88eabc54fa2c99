"""What the batches that were taken in looked like, to know them again."""

from array import array

CAPACITY = 16_384
"""Batches that are remembered, 8 bytes each. Engines keep 10,000 for replays (vLLM's `buffer_steps`)."""
LOOKED_AT_BYTES = 4096
"""Of a payload. Its time stands in front, so this is far more than tells two batches apart."""


class Past:
    """Remembers a run of consecutive batches: the last *capacity* of those that were noted without a gap."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._looks = array("q")
        self._begin = 0
        self._end = 0

    def note(self, seq: int, look: int) -> None:
        """Batch *seq* looks so. What was noted before is forgotten unless it ends right before. O(1)."""
        if seq != self._end:
            self._looks = array("q")
            self._begin = self._end = seq
        if len(self._looks) < self._capacity:
            self._looks.append(look)
        else:
            self._looks[(seq - self._begin) % self._capacity] = look
        self._end += 1

    def look(self, seq: int) -> int | None:
        """How batch *seq* looked; None if that is not remembered."""
        if not max(self._begin, self._end - self._capacity) <= seq < self._end:
            return None
        return self._looks[(seq - self._begin) % self._capacity]


def look_of(payload: bytes) -> int:
    """The same for equal payloads, within this process; hardly ever for others."""
    return hash((len(payload), payload[:LOOKED_AT_BYTES]))
