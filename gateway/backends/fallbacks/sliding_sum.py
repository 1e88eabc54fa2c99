"""Sum over a sliding time window that is divided into slots, so that the memory is bounded."""

from collections import deque


class SlidingSum:
    """Sum of the amounts added in the last *span_s* seconds, with a resolution of *slot_s* seconds.

    An amount may be kept up to *slot_s* too long. A slightly decreasing time counts for the newest slot. O(slots) to
    sum.
    """

    __slots__ = ("_slot_s", "_slots", "_span_s")

    def __init__(self, span_s: float, slot_s: float) -> None:
        self._span_s = span_s
        self._slot_s = slot_s
        self._slots: deque[list[float]] = deque()  # of [when the slot ends, sum], oldest first

    def add(self, amount: float, now: float) -> None:
        """Add *amount* to the sum. A negative amount cancels an earlier one within the time window."""
        self._forget(now)
        if not self._slots or now >= self._slots[-1][0]:
            self._slots.append([(now // self._slot_s + 1.0) * self._slot_s, 0.0])
        self._slots[-1][1] += amount

    def total(self, now: float) -> float:
        self._forget(now)
        return sum([amount for _, amount in self._slots])

    def falls_by_s(self, amount: float, now: float) -> float | None:
        """Return the seconds until the sum is lower by *amount* if nothing is added, or None if the sum is smaller than
        *amount*.
        """
        self._forget(now)
        for ends, added in self._slots:
            amount -= added
            if amount <= 0.0:
                return ends + self._span_s - now
        return None

    def _forget(self, now: float) -> None:
        while self._slots and self._slots[0][0] + self._span_s <= now:
            self._slots.popleft()
