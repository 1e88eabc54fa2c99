"""Breaker that keeps requests from a fallback that would refuse them.

1. A failure that only an operator can repair opens it at once and for long: a refused key, a model that is gone.
2. A used-up quota of a day opens it for hours; a throttled request for moments, longer each time.
3. Other failures open it when there are several in a row.
4. After its time one trial request passes. The others follow when its answer begins.
5. Failures of requests that were sent before it opened do not count, unless they keep it open for longer.
"""

from gateway.backends.fallbacks.failure_class import FailureClass

SHUT_S = 600.0
"""One request every ten minutes tests whether the cause was fixed."""
DAY_S = 7200.0
"""AWS does not say when the day of its quota ends; quotas also refill during the day."""
THROTTLED_S = 2.0
LONGEST_THROTTLED_S = 60.0
"""Quotas are per minute."""
FAILURES = 3
FAILED_S = 15.0
LONGEST_FAILED_S = 300.0
TRIAL_S = 30.0
"""Time after which another request may be the trial."""


class FallbackBreaker:
    """Breaker of one target. *life* numbers the times between two openings."""

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
        """Whether it is open: from a failure until the answer to a trial request begins."""
        return self._opened_at is not None

    def wait_s(self, now: float) -> float:
        """Return the seconds until a request may be sent; 0: now."""
        if self._opened_at is None:
            return 0.0
        waits = self._until if self._trial_at is None else max(self._until, self._trial_at + TRIAL_S)
        return max(0.0, waits - now)

    def sent(self, now: float) -> int:
        """Note that a request is sent, and return the number to report its outcome with."""
        if self._opened_at is not None:
            self._trial_at = now
        return self._life

    def began(self, life: int) -> None:
        """Note the first byte of an answer."""
        if life == self._life:
            self._opened_at = self._trial_at = None

    def answered(self, life: int) -> None:
        """Note a complete answer."""
        if life == self._life:
            self._opened_at = self._trial_at = None
            self._failures = self._openings = 0

    def released(self, life: int) -> None:
        """Note a request that ended without a result."""
        if life == self._life:
            self._trial_at = None

    def failed(self, failure: FailureClass, life: int, now: float) -> None:
        """Note a failure."""
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
        """Close it: what kept it open may have been repaired."""
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
