"""Division of the lines of one batch among workers.

1. Each worker has one range of lines that follow each other, so that it computes a prefix once for all of them.
2. A worker whose range is empty takes a range without a worker, or else the second half of the largest range of another
   worker. All ranges end at about the same time, however fast the workers are.
"""

from dataclasses import dataclass
from typing import Final

NO_WORKER: Final = ""
"""Name of the worker of a range that no worker has taken yet."""


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines from *next* to *stop* - 1, which *worker* has not begun."""

    worker: str
    next: int
    stop: int


class LineRanges:
    """Ranges of lines that no gateway has claimed yet."""

    def __init__(self, ranges: list[LineRange]) -> None:
        self._ranges = {each.worker: each for each in ranges if each.next < each.stop}

    @property
    def left(self) -> list[LineRange]:
        """The ranges that have lines."""
        return list(self._ranges.values())

    def take(self, worker: str, count: int) -> range:
        """Return up to *count* lines that *worker* has to run next, and remove them. Without lines, it is empty."""
        own = self._ranges.get(worker) or self._stolen()
        if own is None:
            return range(0)
        taken = range(own.next, min(own.next + count, own.stop))
        self._ranges.pop(worker, None)
        if taken.stop < own.stop:
            self._ranges[worker] = LineRange(worker, taken.stop, own.stop)
        return taken

    def _stolen(self) -> LineRange | None:
        """Remove a range without a worker, or a part of the largest range, and return it. Without ranges, return None.

        Of ranges with equally many lines, the first one in the order of the batch counts.
        """
        if not self._ranges:
            return None
        unowned = self._ranges.pop(NO_WORKER, None)
        if unowned is not None:
            return unowned
        largest = max(self._ranges.values(), key=lambda each: (each.stop - each.next, -each.next))
        middle = largest.next + (largest.stop - largest.next) // 2
        del self._ranges[largest.worker]
        if largest.next < middle:
            self._ranges[largest.worker] = LineRange(largest.worker, largest.next, middle)
        return LineRange(NO_WORKER, middle, largest.stop)
