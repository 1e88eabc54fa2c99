"""How often something happened of late."""

from collections import deque
from typing import Final

PARTS: Final = 10
"""Of the window: what is counted leaves it a tenth at a time."""


class Window:
    """Counts what happened in the running tenth of the last *window_s* seconds, and in the nine before it.

    O(1) per call, whatever is counted; `now` never goes back.
    """

    def __init__(self, window_s: float) -> None:
        self._part_s = window_s / PARTS
        self._parts: deque[tuple[int, int]] = deque()
        """Number of a part of time, and the count in it; the oldest first. One in which nothing happened is missing."""
        self._count = 0

    def note(self, now: float) -> None:
        """It happened."""
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
