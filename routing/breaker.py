"""Keeps requests from a worker that keeps failing, or fails more often than it should.

1. Only the worker's own failures count: never an answer of 4xx, never a caller that went away.
2. Once it has been open for a while one request is let through, the probe. Its outcome closes the breaker or opens it
   again, for twice as long; if it shows nothing the next request is the probe.
3. What was sent before the breaker opened is no probe: as an answer it proves nothing, as a failure it prolongs.
4. A breaker cannot take the last worker away; the fleet sees to that.
"""

from collections import deque

from routing.window import Window

LONGEST = 8.0
"""Times *open_s* that a breaker stays open at most, however many probes fail: what has recovered is found within it."""


class Breaker:
    """Opens after *failures* failures in a row within *window_s* seconds, or if of the at least *least_requests*
    outcomes of the last *window_s* seconds *error_share* are failures.

    The second finds the worker that fails every other request, which never fails five times in a row.
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        window_s: float = 30.0,
        open_s: float = 10.0,
        error_share: float = 0.5,
        least_requests: int = 10,
    ) -> None:
        self._limit = failures
        self._window_s = window_s
        self._open_s = open_s
        self._error_share = error_share
        self._least_requests = least_requests
        self._failed_at: deque[float] = deque(maxlen=failures)
        """Since the last answer."""
        self._all, self._failed = Window(window_s), Window(window_s)
        """Outcomes since it was closed, and the failures among them."""
        self._opened_at: float | None = None
        """When it opened, or opened again for a probe that failed."""
        self._times = 1.0
        self._closed_until = 0.0
        """To requests: no probe before."""
        self._probe_at: float | None = None

    def allows(self, now: float) -> bool:
        """Whether a request may go to the worker. A probe that never reports back is forgotten after *open_s*."""
        if self._opened_at is None:
            return True
        if now < self._closed_until:
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

    def succeeded(self, now: float, *, sent_at: float) -> None:
        """The request that was sent at *sent_at* was answered."""
        if self._opened_at is None:
            self._failed_at.clear()
            self._all.note(now)
        elif sent_at >= self._opened_at:
            self.reset()

    def failed(self, now: float, *, sent_at: float) -> None:
        """The worker failed the request that was sent at *sent_at*."""
        if self._opened_at is None:
            self._failed_at.append(now)
            self._all.note(now)
            self._failed.note(now)
            if self._fails_in_row(now) or self._fails_too_often(now):
                self._open(now)
        elif sent_at >= self._opened_at:
            self._times = min(LONGEST, 2.0 * self._times)
            self._open(now)
        else:
            self._closed_until = max(self._closed_until, now + self._open_s * self._times)

    def showed_nothing(self, *, sent_at: float) -> None:
        """The request that was sent at *sent_at* is over and told nothing: if it was the probe, the next one is."""
        if sent_at == self._probe_at:
            self._probe_at = None

    def reset(self) -> None:
        """Nothing is held against the worker: a probe was answered, or another one has begun to live at its address."""
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
        return outcomes >= self._least_requests and self._failed.count(now) >= self._error_share * outcomes
