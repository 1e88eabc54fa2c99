"""Keeps requests from a fallback that would refuse them.

1. What only an operator can mend shuts it at once and for long: a key that is refused, a model that is gone.
2. A quota of a day that is used up shuts it for hours; a throttled request for moments, longer each time.
3. Other failures shut it when there are several in a row.
4. After its time one request is let through, on trial. The others follow when that has begun to be answered.
5. Requests that were on their way when it was shut say nothing new, unless they say that it must be shut for longer.
"""

from gateway.cascade.verdict import Verdict

SHUT_S = 600.0
"""Somebody may have mended it meanwhile: one request in ten minutes is spent on finding out."""
DAY_S = 7200.0
"""AWS does not say when the day of its quota ends; quotas refill during the day too."""
THROTTLED_S = 2.0
LONGEST_THROTTLED_S = 60.0
"""Quotas are per minute."""
FAILURES = 3
FAILED_S = 15.0
LONGEST_FAILED_S = 300.0
TRIAL_S = 30.0
"""After that the one on trial is not waited for: another may try."""


class FallbackBreaker:
    """Of one target. *life* numbers the times between two openings; times do not go back by much."""

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
        """From opening until a request on trial begins to be answered."""
        return self._opened_at is not None

    def wait_s(self, now: float) -> float:
        """Until a request may go; 0: now."""
        if self._opened_at is None:
            return 0.0
        waits = self._until if self._trial_at is None else max(self._until, self._trial_at + TRIAL_S)
        return max(0.0, waits - now)

    def sent(self, now: float) -> int:
        """A request goes; the number returned is to be brought along with its outcome."""
        if self._opened_at is not None:
            self._trial_at = now
        return self._life

    def began(self, life: int) -> None:
        """The first of an answer came."""
        if life == self._life:
            self._opened_at = self._trial_at = None

    def answered(self, life: int) -> None:
        """An answer was complete."""
        if life == self._life:
            self._opened_at = self._trial_at = None
            self._failures = self._openings = 0

    def released(self, life: int) -> None:
        """A request ended without a result."""
        if life == self._life:
            self._trial_at = None

    def failed(self, verdict: Verdict, life: int, now: float) -> None:
        """A request failed as *verdict* says."""
        if life != self._life:
            if verdict.of in {"shut", "spent for today"}:
                self._open(max(self._until - now, self._time_s(verdict)), now)
            return
        if verdict.of == "failed" and self._opened_at is None:
            self._failures += 1
            if self._failures < FAILURES:
                return
        self._open(self._time_s(verdict), now)

    def forget(self) -> None:
        """Begin anew: what kept it shut may have been mended."""
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

    def _time_s(self, verdict: Verdict) -> float:
        match verdict.of:
            case "shut":
                return SHUT_S
            case "spent for today":
                return max(DAY_S, verdict.retry_after_s or 0.0)
            case "throttled":
                first_s, longest_s = THROTTLED_S, LONGEST_THROTTLED_S
            case _:
                first_s, longest_s = FAILED_S, LONGEST_FAILED_S
        doubled_s = min(longest_s, first_s * 2.0 ** min(self._openings, 10))
        return max(doubled_s, min(verdict.retry_after_s or 0.0, LONGEST_FAILED_S))
