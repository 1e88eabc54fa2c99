"""Detection of outages in which no fallback answers. Each outage is logged once instead of for every request."""

QUIET_S = 300.0
"""Seconds without a failure after which the next failure counts as a new outage, because workers might have answered
meanwhile.
"""


class Outage:
    """Outage of one model's fallbacks, from the first request that no fallback answers until the next answer."""

    __slots__ = ("_began_at", "_failed", "_last_at")

    def __init__(self) -> None:
        self._began_at: float | None = None
        self._last_at = 0.0
        self._failed = 0

    def failed(self, now: float) -> bool:
        """Record a request that no fallback answered. Return whether it begins an outage."""
        begins = self._began_at is None or now - self._last_at > QUIET_S
        if begins:
            self._began_at, self._failed = now, 0
        self._last_at = now
        self._failed += 1
        return begins

    def answered(self, now: float) -> tuple[float, int] | None:
        """Record an answer. If it ends an outage, return the length of the outage in seconds and the number of failed
        requests, otherwise None.
        """
        began_at, self._began_at = self._began_at, None
        return None if began_at is None else (now - began_at, self._failed)
