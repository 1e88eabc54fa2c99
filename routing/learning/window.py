"""A count of recent events."""

from collections import deque
from typing import Final

PARTS: Final = 10
"""Parts of the window: counts leave it a tenth at a time."""


class Window:
    """Counts the events of the last *window_s* seconds, to a tenth of that.

    O(1) per call; `now` never goes back.
    """

    def __init__(self, window_s: float) -> None:
        self._part_s = window_s / PARTS
        self._parts: deque[tuple[int, int]] = deque()
        """Number of each part and its count, the oldest first, without empty parts."""
        self._count = 0

    def note(self, now: float) -> None:
        """Count an event."""
        self._forget(now)
        part, parts = int(now / self._part_s), self._parts
        before = parts.pop()[1] if parts and parts[-1][0] == part else 0
        parts.append((part, before + 1))
        self._count += 1

    def count(self, now: float) -> int:
        self._forget(now)
        return self._count

    def _forget(self, now: float) -> None:
        oldest, parts = int(now / self._part_s) - PARTS, self._parts
        while parts and parts[0][0] <= oldest:
            self._count -= parts.popleft()[1]
