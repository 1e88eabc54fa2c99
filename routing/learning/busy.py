"""Smoothed share of time during which a worker was busy."""

import math


class BusyShare:
    """Exponentially smoothed busy share, from 0 to 1, with a time constant of *memory_s* seconds."""

    def __init__(self, now: float, *, memory_s: float = 30.0) -> None:
        self._memory_s = memory_s
        self._share = 0.0
        self._since = now

    def observe(self, now: float, *, busy: bool) -> float:
        """Return the busy share at *now*. *busy* is the worker's state since the last call."""
        if now == self._since:
            return self._share
        keep = math.exp((self._since - now) / self._memory_s)
        self._share = self._share * keep + (1.0 - keep if busy else 0.0)
        self._since = now
        return self._share
