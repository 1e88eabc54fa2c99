"""Throughput of a fleet, measured while requests are waiting and no worker is free.

Sent work is counted when the next work is sent, over the time between the two, because work that was just sent is not
done yet.
"""

import math

MEMORY_S = 20.0
"""Age in seconds at which past work still has about a third of its weight."""
ENOUGH_S = 5.0
"""Seconds of time and of work from which measurements count fully. Shorter measurements count in proportion."""
MIN_SHARE = 0.1
"""Lowest predicted throughput, as a share of the initial estimate, for engines that pause to compile."""


class Throughput:
    """Throughput in seconds of estimated work per second. Three workers that each compute one prompt have a throughput
    of three.
    """

    def __init__(self) -> None:
        self._done_s = 0.0
        self._elapsed_s = 0.0
        self._seen_s = 0.0
        """Total seconds of work ever measured. Past work counts as evidence even after it has lost its weight."""
        self._sent_s = 0.0
        """Seconds of work that were sent to workers at the time `_sent_at`."""
        self._sent_at: float | None = None
        self._is_watched = False

    @property
    def evidence(self) -> float:
        """Amount of evidence about throughput, from 0 to 1. With a value of 1, requests can be refused."""
        return min(1.0, self._elapsed_s / ENOUGH_S, self._seen_s / ENOUGH_S)

    def begin(self) -> None:
        """Start measuring the throughput, because requests are waiting and all workers are busy."""
        self._is_watched = True

    def end(self) -> None:
        """Stop measuring the throughput, because some workers might be idle."""
        self._is_watched = False
        self._sent_s = 0.0
        self._sent_at = None

    def sent(self, work_s: float, now: float) -> None:
        """Record that *work_s* seconds of work were sent to the workers of the fleet."""
        if not self._is_watched:
            return
        if self._sent_at is not None and now > self._sent_at:
            self._count(self._sent_s, now - self._sent_at)
            self._sent_s = 0.0
        self._sent_s += work_s
        self._sent_at = now

    def per_s(self, believed: float) -> float:
        """Return the throughput, which moves from the estimate *believed* to the measured value as evidence grows."""
        if self._elapsed_s <= 0.0:
            return believed
        measured = self._done_s / self._elapsed_s
        return max(MIN_SHARE * believed, believed + (measured - believed) * self.evidence)

    def _count(self, work_s: float, passed_s: float) -> None:
        keep = math.exp(-passed_s / MEMORY_S)
        self._done_s = self._done_s * keep + work_s
        self._elapsed_s = self._elapsed_s * keep + passed_s
        self._seen_s += work_s
