"""Keeps requests from a worker that keeps failing.

1. Only the worker's own failures count: never an answer of 4xx, never a caller that went away.
2. After *open_s* one request is let through; its outcome closes the breaker or opens it again.
3. A breaker cannot take the last worker away; the fleet sees to that.
"""

from collections import deque


class Breaker:
    """Opens after *failures* failures in a row within *window_s* seconds."""

    def __init__(self, *, failures: int = 5, window_s: float = 30.0, open_s: float = 10.0) -> None:
        self._limit = failures
        self._window_s = window_s
        self._open_s = open_s
        self._failed_at: deque[float] = deque(maxlen=failures)
        self._opened_at: float | None = None
        self._probe_at: float | None = None

    def allows(self, now: float) -> bool:
        """Whether a request may go to the worker. A probe that never reports back is forgotten after *open_s*."""
        if self._opened_at is None:
            return True
        if now - self._opened_at < self._open_s:
            return False
        return self._probe_at is None or now - self._probe_at >= self._open_s

    @property
    def is_open(self) -> bool:
        """True from opening until a probe succeeds."""
        return self._opened_at is not None

    def sent(self, now: float) -> None:
        """A request goes to the worker; while open, it is the probe."""
        if self._opened_at is not None:
            self._probe_at = now

    def succeeded(self) -> None:
        self._failed_at.clear()
        self._opened_at = self._probe_at = None

    def failed(self, now: float) -> None:
        self._failed_at.append(now)
        in_row = len(self._failed_at) == self._limit and now - self._failed_at[0] <= self._window_s
        if in_row or self._opened_at is not None:
            self._opened_at = now
