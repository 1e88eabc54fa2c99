"""Fingerprints of the batches that were taken in, to recognize them again."""

from array import array

CAPACITY = 16_384
"""Batches that are remembered, 8 bytes each. Engines keep 10,000 for replays (vLLM's `buffer_steps`)."""
LOOKED_AT_BYTES = 4096
"""Bytes of a payload that are compared. Its time is in front, so they tell any two batches apart."""


class Past:
    """Fingerprints of a run of consecutive batches: the last *capacity* of those that were noted without a gap."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._looks = array("q")
        self._begin = 0
        self._end = 0

    def note(self, seq: int, look: int) -> None:
        """Note the fingerprint of batch *seq*. Earlier ones are forgotten unless they end right before. O(1)."""
        if seq != self._end:
            self._looks = array("q")
            self._begin = self._end = seq
        if len(self._looks) < self._capacity:
            self._looks.append(look)
        else:
            self._looks[(seq - self._begin) % self._capacity] = look
        self._end += 1

    def look(self, seq: int) -> int | None:
        """Return the fingerprint of batch *seq*; None if it is not remembered."""
        if not max(self._begin, self._end - self._capacity) <= seq < self._end:
            return None
        return self._looks[(seq - self._begin) % self._capacity]


def look_of(payload: bytes) -> int:
    """Return a fingerprint of *payload*, for use within this process."""
    return hash((len(payload), payload[:LOOKED_AT_BYTES]))
