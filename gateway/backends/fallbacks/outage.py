"""Outage of a model's fallbacks, logged once and not with every request."""

QUIET_S = 300.0
"""Time without a failure after which the next one is another outage: workers may have answered meanwhile."""


class Outage:
    """Outage of one model: from the first request that no fallback answers to the next answer."""

    __slots__ = ("_began_at", "_failed", "_last_at")

    def __init__(self) -> None:
        self._began_at: float | None = None
        self._last_at = 0.0
        self._failed = 0

    def failed(self, now: float) -> bool:
        """Note a request that no fallback answered, and return whether that begins an outage."""
        begins = self._began_at is None or now - self._last_at > QUIET_S
        if begins:
            self._began_at, self._failed = now, 0
        self._last_at = now
        self._failed += 1
        return begins

    def answered(self, now: float) -> tuple[float, int] | None:
        """Note an answer, and return seconds and failed requests of the outage that ends with it."""
        began_at, self._began_at = self._began_at, None
        return None if began_at is None else (now - began_at, self._failed)
