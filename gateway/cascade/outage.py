"""Whether the fallbacks of a model are out, so that the log says so once and not with every request."""

QUIET_S = 300.0
"""After so long without a failure a new one is another outage: workers may have answered meanwhile."""


class Outage:
    """Of one model. It begins with the first request that no fallback answers, and ends with the next answer."""

    __slots__ = ("_began_at", "_failed", "_last_at")

    def __init__(self) -> None:
        self._began_at: float | None = None
        self._last_at = 0.0
        self._failed = 0

    def failed(self, now: float) -> bool:
        """No fallback answered a request; whether that begins an outage."""
        begins = self._began_at is None or now - self._last_at > QUIET_S
        if begins:
            self._began_at, self._failed = now, 0
        self._last_at = now
        self._failed += 1
        return begins

    def answered(self, now: float) -> tuple[float, int] | None:
        """A fallback answers; of the outage that ends with it the seconds and the requests that failed."""
        began_at, self._began_at = self._began_at, None
        return None if began_at is None else (now - began_at, self._failed)
