"""Circuit breaker for a worker that keeps failing or fails too often.

1. Only failures of the worker count. Answers with a 4xx status and closed caller connections do not count.
2. After some time, an open breaker lets one request through, which is called the probe. A successful probe closes the
   breaker, and a failed probe opens the breaker again for twice as long. If the probe shows nothing about the worker,
   the next request becomes the probe.
3. A request that was sent before the breaker opened is not a probe. Its success does not close the breaker, but its
   failure keeps the breaker open for longer.
4. An open breaker never excludes the last available worker (see `Fleet.candidates`).
"""

from collections import deque

from routing.learning.window import Window

MAX_BACKOFF = 8.0
"""Maximum factor by which *open_s* grows. The limit keeps probes frequent enough to detect a recovered worker soon."""


class Breaker:
    """Circuit breaker that opens after consecutive failures or at a high failure rate.

    The breaker opens after *failures* consecutive failures within *window_s* seconds. It also opens if at least
    *error_share* of the outcomes in the last *window_s* seconds are failures, given at least *min_requests* outcomes.
    The second rule catches a worker that fails every other request, which never reaches five consecutive failures.
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
        """Times of the worker's failures since its last successful answer."""
        self._all, self._failed = Window(window_s), Window(window_s)
        """Outcomes of all requests since the breaker closed, and the failures among these outcomes."""
        self._opened_at: float | None = None
        """Time at which the breaker last opened, possibly because a probe failed."""
        self._times = 1.0
        self._closed_until = 0.0
        """Earliest time at which a probe is allowed."""
        self._probe_at: float | None = None

    def allows(self, now: float) -> bool:
        """Return whether a request is allowed to go to the worker. Unanswered probes expire after *open_s* seconds."""
        if self._opened_at is None:
            return True
        if now < self._closed_until:
            return False
        return self._probe_at is None or now - self._probe_at >= self._open_s

    @property
    def is_open(self) -> bool:
        """Whether the circuit breaker has opened and no probe has succeeded since."""
        return self._opened_at is not None

    def sent(self, now: float) -> None:
        """Record that a request is sent to the worker. If the breaker is open, the request becomes the probe."""
        if self._opened_at is not None:
            self._probe_at = now

    def succeeded(self, now: float, *, sent_at: float) -> None:
        """Record that the worker answered the request sent at *sent_at*."""
        if self._opened_at is None:
            self._failed_at.clear()
            self._all.note(now)
        elif sent_at >= self._opened_at:
            self.reset()

    def failed(self, now: float, *, sent_at: float) -> None:
        """Record that the worker failed the request sent at *sent_at*."""
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
        """Record that the request sent at *sent_at* had no clear outcome. If it was the probe, the next request becomes
        the probe.
        """
        if sent_at == self._probe_at:
            self._probe_at = None

    def reset(self) -> None:
        """Close the circuit breaker and forget all failures, because a probe succeeded or the worker restarted."""
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
