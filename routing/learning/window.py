"""Counter of the events in a sliding time window."""

from collections import deque
from typing import Final

PARTS: Final = 10
"""Number of parts in the time window. Event counts expire one part at a time."""


class Window:
    """Counter of the events in the last *window_s* seconds, with a resolution of a tenth of the window.

    Each call takes constant time. `now` must never decrease.
    """

    def __init__(self, window_s: float) -> None:
        self._part_s = window_s / PARTS
        self._parts: deque[tuple[int, int]] = deque()
        """Number and event count of each non-empty part of the time window, oldest part first."""
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
