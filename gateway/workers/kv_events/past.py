"""Fingerprints of processed batches, used to detect duplicates and restarts."""

from array import array

CAPACITY = 16_384
"""Number of batches to remember, at 8 bytes each. Engines keep 10,000 batches for replays (vLLM's `buffer_steps`)."""
LOOKED_AT_BYTES = 4096
"""Number of payload bytes that a fingerprint covers. They include the timestamp, so any two batches differ."""


class Past:
    """Fingerprints of the last *capacity* consecutive batches."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._looks = array("q")
        self._begin = 0
        self._end = 0

    def note(self, seq: int, look: int) -> None:
        """Add the fingerprint of the batch *seq*. If *seq* does not follow the last batch, drop all earlier
        fingerprints. O(1).
        """
        if seq != self._end:
            self._looks = array("q")
            self._begin = self._end = seq
        if len(self._looks) < self._capacity:
            self._looks.append(look)
        else:
            self._looks[(seq - self._begin) % self._capacity] = look
        self._end += 1

    def look(self, seq: int) -> int | None:
        """Return the fingerprint of the batch *seq*, or None if it is not remembered."""
        if not max(self._begin, self._end - self._capacity) <= seq < self._end:
            return None
        return self._looks[(seq - self._begin) % self._capacity]


def look_of(payload: bytes) -> int:
    """Return a fingerprint of *payload*. It is valid only within this process."""
    return hash((len(payload), payload[:LOOKED_AT_BYTES]))
