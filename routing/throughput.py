"""How much work a fleet gets done, as far as it can be seen: while requests wait for it and no worker is free.

What was sent last shows nothing yet: it is being done. And before the first was sent, what came earlier was done. So
work is counted when the next is sent, over the time between the two.
"""

import math

MEMORY_S = 20.0
"""What was done that long ago counts a third."""
ENOUGH_S = 5.0
"""Of time, and of work, before what was measured counts fully; less of either counts by its part."""
LEAST_SHARE = 0.1
"""Of what is believed: less is never predicted, as after an engine that compiled something for half a minute."""


class Throughput:
    """Seconds of estimated work per second. A fleet of three workers that compute one prompt at a time does three."""

    def __init__(self) -> None:
        self._done_s = 0.0
        self._elapsed_s = 0.0
        self._seen_s = 0.0
        """Of work, since ever: what is forgotten was evidence all the same."""
        self._sent_s = 0.0
        """At `_sent_at`, and is being done."""
        self._sent_at: float | None = None
        self._is_watched = False

    @property
    def evidence(self) -> float:
        """0, nothing was seen, to 1: enough to refuse somebody for it."""
        return min(1.0, self._elapsed_s / ENOUGH_S, self._seen_s / ENOUGH_S)

    def begin(self) -> None:
        """Somebody waits, and all workers have something to do."""
        self._is_watched = True

    def end(self) -> None:
        """Not so any more: what is done shows no longer what could be done."""
        self._is_watched = False
        self._sent_s = 0.0
        self._sent_at = None

    def sent(self, work_s: float, now: float) -> None:
        """Work was sent to the fleet."""
        if not self._is_watched:
            return
        if self._sent_at is not None and now > self._sent_at:
            self._count(self._sent_s, now - self._sent_at)
            self._sent_s = 0.0
        self._sent_s += work_s
        self._sent_at = now

    def per_s(self, believed: float) -> float:
        """*believed* at first, the more of what is measured the more was seen."""
        if self._elapsed_s <= 0.0:
            return believed
        measured = self._done_s / self._elapsed_s
        return max(LEAST_SHARE * believed, believed + (measured - believed) * self.evidence)

    def _count(self, work_s: float, passed_s: float) -> None:
        keep = math.exp(-passed_s / MEMORY_S)
        self._done_s = self._done_s * keep + work_s
        self._elapsed_s = self._elapsed_s * keep + passed_s
        self._seen_s += work_s
