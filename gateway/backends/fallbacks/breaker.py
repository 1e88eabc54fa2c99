"""Circuit breaker that stops sending requests to a fallback that would reject them.

1. A failure that only an operator can fix, such as a rejected key or a removed model, opens it at once and for a long
   time.
2. An exhausted daily quota opens it for hours. A throttled request opens it for seconds, longer each time.
3. Other failures open it if several occur in a row.
4. After its open time, one trial request is sent. Other requests follow once the response to the trial begins.
5. A failure of a request that was sent before the breaker opened is ignored, unless it requires a longer open time.
"""

from gateway.backends.fallbacks.failure_class import FailureClass

SHUT_S = 600.0
"""Seconds between two trial requests to a fallback with a failure that only an operator can fix."""
DAY_S = 7200.0
"""Seconds without requests after a daily quota is exhausted. AWS does not say when its day ends, and quotas also refill
during the day.
"""
THROTTLED_S = 2.0
LONGEST_THROTTLED_S = 60.0
"""Longest time in seconds that throttling keeps a breaker open. AWS's quotas are per minute."""
FAILURES = 3
FAILED_S = 15.0
LONGEST_FAILED_S = 300.0
TRIAL_S = 30.0
"""Seconds after which another trial request is allowed if the first one has no result."""


class FallbackBreaker:
    """Circuit breaker of one fallback target. A *life* is the number of the period between two openings."""

    __slots__ = ("_failures", "_life", "_opened_at", "_openings", "_trial_at", "_until")

    def __init__(self) -> None:
        self._life = 0
        self._failures = 0
        self._openings = 0  # since something was answered completely
        self._opened_at: float | None = None
        self._until = 0.0
        self._trial_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the breaker is open: from an opening failure until the response to a trial request begins."""
        return self._opened_at is not None

    def wait_s(self, now: float) -> float:
        """Return the seconds until the breaker allows a request, or 0 if it allows a request now."""
        if self._opened_at is None:
            return 0.0
        waits = self._until if self._trial_at is None else max(self._until, self._trial_at + TRIAL_S)
        return max(0.0, waits - now)

    def sent(self, now: float) -> int:
        """Record that a request is sent, and return the life number that the report of its outcome must include."""
        if self._opened_at is not None:
            self._trial_at = now
        return self._life

    def began(self, life: int) -> None:
        """Record the first byte of a response, which closes the breaker."""
        if life == self._life:
            self._opened_at = self._trial_at = None

    def answered(self, life: int) -> None:
        """Record a complete response, which closes the breaker and resets its failure counts."""
        if life == self._life:
            self._opened_at = self._trial_at = None
            self._failures = self._openings = 0

    def released(self, life: int) -> None:
        """Record that a request ended without a result, so that another trial request is allowed."""
        if life == self._life:
            self._trial_at = None

    def failed(self, failure: FailureClass, life: int, now: float) -> None:
        """Record a failed request, which can open the breaker."""
        if life != self._life:
            if failure.kind in {"shut", "spent for today"}:
                self._open(max(self._until - now, self._time_s(failure)), now)
            return
        if failure.kind == "failed" and self._opened_at is None:
            self._failures += 1
            if self._failures < FAILURES:
                return
        self._open(self._time_s(failure), now)

    def forget(self) -> None:
        """Close the breaker, because the cause of its failures might have been fixed."""
        self._life += 1
        self._failures = self._openings = 0
        self._opened_at = self._trial_at = None

    def _open(self, for_s: float, now: float) -> None:
        self._life += 1
        self._openings += 1
        self._failures = 0
        self._opened_at = now
        self._until = now + for_s
        self._trial_at = None

    def _time_s(self, failure: FailureClass) -> float:
        match failure.kind:
            case "shut":
                return SHUT_S
            case "spent for today":
                return max(DAY_S, failure.retry_after_s or 0.0)
            case "throttled":
                first_s, longest_s = THROTTLED_S, LONGEST_THROTTLED_S
            case _:
                first_s, longest_s = FAILED_S, LONGEST_FAILED_S
        doubled_s = min(longest_s, first_s * 2.0 ** min(self._openings, 10))
        return max(doubled_s, min(failure.retry_after_s or 0.0, LONGEST_FAILED_S))
