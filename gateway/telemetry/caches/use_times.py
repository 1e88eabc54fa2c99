"""Times of the uses of the cache index, which counts uses instead of reading a clock."""

from bisect import bisect_left
from collections import deque
from typing import Final

EVERY_S: Final = 2.0
KEPT_S: Final = 3600.0


class UseTimes:
    """Number of uses at times of the last hour, at most one entry every `EVERY_S` seconds."""

    def __init__(self) -> None:
        self._entries: deque[tuple[int, float]] = deque(maxlen=int(KEPT_S / EVERY_S))

    def note(self, uses: int, now: float) -> None:
        """Record that there were *uses* uses of the index at the monotonic time *now*."""
        if not self._entries or now - self._entries[-1][1] >= EVERY_S:
            self._entries.append((uses, now))

    def span_s(self, uses: int) -> float | None:
        """Return the seconds that the last *uses* uses took, or None if they began too long ago."""
        if not self._entries:
            return None
        last, at = self._entries[-1]
        return self.age_s(max(0, last - uses), at)

    def age_s(self, use: int, now: float) -> float | None:
        """Return the seconds since use number *use*, or None if that is too long ago. The resolution is `EVERY_S`."""
        entries = self._entries
        place = bisect_left(entries, (use, 0.0))
        if not entries or (place == 0 and use < entries[0][0]):
            return None
        return max(0.0, now - (entries[place][1] if place < len(entries) else entries[-1][1]))
