"""The throughput of a fleet, measured while requests wait for it and no worker is free.

Work is counted when the next work is sent, over the time between the two: work that was just sent is not done yet.
"""

import math

MEMORY_S = 20.0
"""Age at which work counts a third."""
ENOUGH_S = 5.0
"""Seconds of time and of work from which measurements count fully; with less, they count in proportion."""
MIN_SHARE = 0.1
"""Lowest prediction as a share of the prior: an engine may have compiled something for half a minute."""


class Throughput:
    """Seconds of estimated work per second: three for three workers that compute one prompt at a time."""

    def __init__(self) -> None:
        self._done_s = 0.0
        self._elapsed_s = 0.0
        self._seen_s = 0.0
        """All work ever measured: work that has faded is still evidence."""
        self._sent_s = 0.0
        """Work that was sent at `_sent_at` and is being done."""
        self._sent_at: float | None = None
        self._is_watched = False

    @property
    def evidence(self) -> float:
        """Amount of evidence, from 0 to 1, which is enough to refuse requests."""
        return min(1.0, self._elapsed_s / ENOUGH_S, self._seen_s / ENOUGH_S)

    def begin(self) -> None:
        """Begin to measure: requests wait, and all workers are busy."""
        self._is_watched = True

    def end(self) -> None:
        """Stop measuring: some workers may be idle."""
        self._is_watched = False
        self._sent_s = 0.0
        self._sent_at = None

    def sent(self, work_s: float, now: float) -> None:
        """Note that work was sent to the fleet."""
        if not self._is_watched:
            return
        if self._sent_at is not None and now > self._sent_at:
            self._count(self._sent_s, now - self._sent_at)
            self._sent_s = 0.0
        self._sent_s += work_s
        self._sent_at = now

    def per_s(self, believed: float) -> float:
        """Return the throughput: *believed* at first, the measured one with growing evidence."""
        if self._elapsed_s <= 0.0:
            return believed
        measured = self._done_s / self._elapsed_s
        return max(MIN_SHARE * believed, believed + (measured - believed) * self.evidence)

    def _count(self, work_s: float, passed_s: float) -> None:
        keep = math.exp(-passed_s / MEMORY_S)
        self._done_s = self._done_s * keep + work_s
        self._elapsed_s = self._elapsed_s * keep + passed_s
        self._seen_s += work_s
