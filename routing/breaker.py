"""The circuit breaker of a worker that keeps failing, or fails too often.

1. Only the worker's own failures count, not answers of 4xx or callers that went away.
2. After some time, an open breaker lets one request through, the probe. Its outcome closes the breaker, or opens it
   again for twice as long. If the outcome shows nothing, the next request is the probe.
3. A request that was sent before the breaker opened is not a probe: its answer proves nothing, its failure prolongs.
4. A breaker never excludes the last worker: see `Fleet.candidates`.
"""

from collections import deque

from routing.learning.window import Window

MAX_BACKOFF = 8.0
"""Limit of the factor on *open_s* after failed probes, so that a recovered worker is found in time."""


class Breaker:
    """Opens after *failures* failures in a row within *window_s* seconds, or if at least *error_share* of the outcomes
    in the last *window_s* seconds are failures and there are at least *min_requests* of them.

    The second rule finds a worker that fails every other request, and so never fails five times in a row.
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        window_s: float = 30.0,
        open_s: float = 10.0,
        error_share: float = 0.5,
        min_requests: int = 10,
    ) -> None:
        self._limit = failures
        self._window_s = window_s
        self._open_s = open_s
        self._error_share = error_share
        self._min_requests = min_requests
        self._failed_at: deque[float] = deque(maxlen=failures)
        """Times of the failures since the last answer."""
        self._all, self._failed = Window(window_s), Window(window_s)
        """Outcomes since the breaker closed, and the failures among them."""
        self._opened_at: float | None = None
        """Time at which it opened, or opened again after a failed probe."""
        self._times = 1.0
        self._closed_until = 0.0
        """Earliest time of a probe."""
        self._probe_at: float | None = None

    def allows(self, now: float) -> bool:
        """Return whether a request may go to the worker. A probe without outcome is forgotten after *open_s*."""
        if self._opened_at is None:
            return True
        if now < self._closed_until:
            return False
        return self._probe_at is None or now - self._probe_at >= self._open_s

    @property
    def is_open(self) -> bool:
        """Whether it has opened and no probe has succeeded since."""
        return self._opened_at is not None

    def sent(self, now: float) -> None:
        """Note that a request goes to the worker; while the breaker is open, it is the probe."""
        if self._opened_at is not None:
            self._probe_at = now

    def succeeded(self, now: float, *, sent_at: float) -> None:
        """Note that the request sent at *sent_at* was answered."""
        if self._opened_at is None:
            self._failed_at.clear()
            self._all.note(now)
        elif sent_at >= self._opened_at:
            self.reset()

    def failed(self, now: float, *, sent_at: float) -> None:
        """Note that the worker failed the request sent at *sent_at*."""
        if self._opened_at is None:
            self._failed_at.append(now)
            self._all.note(now)
            self._failed.note(now)
            if self._fails_in_row(now) or self._fails_too_often(now):
                self._open(now)
        elif sent_at >= self._opened_at:
            self._times = min(MAX_BACKOFF, 2.0 * self._times)
            self._open(now)
        else:
            self._closed_until = max(self._closed_until, now + self._open_s * self._times)

    def showed_nothing(self, *, sent_at: float) -> None:
        """Note that the request sent at *sent_at* is no evidence. If it was the probe, the next request is."""
        if sent_at == self._probe_at:
            self._probe_at = None

    def reset(self) -> None:
        """Close the breaker and forget all failures: a probe was answered, or the worker restarted."""
        self._failed_at.clear()
        self._all, self._failed = Window(self._window_s), Window(self._window_s)
        self._opened_at = self._probe_at = None
        self._times = 1.0

    def _open(self, now: float) -> None:
        self._opened_at = now
        self._closed_until = now + self._open_s * self._times
        self._probe_at = None

    def _fails_in_row(self, now: float) -> bool:
        return len(self._failed_at) == self._limit and now - self._failed_at[0] <= self._window_s

    def _fails_too_often(self, now: float) -> bool:
        outcomes = self._all.count(now)
        return outcomes >= self._min_requests and self._failed.count(now) >= self._error_share * outcomes
