"""Rate limiter that works as a token bucket."""

import math

BURST_SHARE = 1 / 6
"""Fraction of a minute's amount that can be used at once. The rest refills over a minute, so that no minute exceeds the
amount.
"""
SLACK = 1e-9
"""Tolerance for rounding errors, as a fraction of the amount. Within this tolerance, a bucket counts as full."""


class Bucket:
    """Token bucket that grants at most its amount in any minute, except for a single grant that is larger than the
    burst.

    Such a grant requires a full bucket and leaves a debt that refills first. Times must not decrease.
    """

    __slots__ = ("_amount", "_at", "_least_burst", "_level", "_share")

    def __init__(self, amount: float, *, least_burst: float = 0.0) -> None:
        """Create a full bucket that grants *amount* units per minute. A burst of *least_burst* units is always
        allowed.
        """
        self._amount = amount
        self._least_burst = least_burst
        self._share = 0.0
        self._level = math.inf  # full, whatever that is
        self._at = 0.0

    def set_amount(self, amount: float) -> None:
        """Change the rate of the bucket to *amount* units per minute from now on."""
        self._amount = amount

    def turn(self, share: float, now: float) -> None:
        """Refill the bucket up to the time *now*. From then on, the fraction *share* of the rate is usable."""
        refill = (now - self._at) * self._refill_per_s(min(share, self._share))
        self._share, self._at = share, now
        self._level = min(self._burst, self._level + refill)

    def wait_s(self, units: float) -> float | None:
        """Return the seconds until *units* can be granted, or None if this is impossible. Call `turn` first."""
        if units > self._amount:
            return None
        lacking = min(units, self._burst) - self._level
        if lacking <= SLACK * self._amount:
            return 0.0
        return lacking / self._refill_per_s(self._share)

    def grant(self, units: float) -> None:
        self._level -= units

    def give_back(self, units: float) -> None:
        """Put *units* of an earlier grant back. A negative number means that more was used than was granted."""
        self._level = min(self._burst, self._level + units)

    @property
    def _burst(self) -> float:
        return max(self._least_burst, self._amount * BURST_SHARE * self._share)

    def _refill_per_s(self, share: float) -> float:
        return self._amount * (1.0 - BURST_SHARE) * share / 60.0
