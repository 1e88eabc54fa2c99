"""Rate limit as a bucket of tokens that refills by itself."""

import math

BURST_SHARE = 1 / 6
"""Share of a minute's amount that may be used at once. The rest comes back within a minute, so that no minute has more
than the amount."""
SLACK = 1e-9
"""A bucket that is full but for this share of its amount is full."""


class Bucket:
    """Bucket that grants no more than its amount in any minute, but for one grant larger than the burst.

    Such a grant passes a full bucket and leaves a debt, which is paid off first. Times do not go back.
    """

    __slots__ = ("_amount", "_at", "_least_burst", "_level", "_share")

    def __init__(self, amount: float, *, least_burst: float = 0.0) -> None:
        """*amount* a minute; *least_burst* passes at once however low the share of the rate is."""
        self._amount = amount
        self._least_burst = least_burst
        self._share = 0.0
        self._level = math.inf  # full, whatever that is
        self._at = 0.0

    def set_amount(self, amount: float) -> None:
        """Apply *amount* a minute from now on."""
        self._amount = amount

    def turn(self, share: float, now: float) -> None:
        """Refill up to *now*; *share* of the rate may be used."""
        refill = (now - self._at) * self._refill_per_s(min(share, self._share))
        self._share, self._at = share, now
        self._level = min(self._burst, self._level + refill)

    def wait_s(self, units: float) -> float | None:
        """Return the seconds until *units* are granted at the present share; 0: now; None: never. Call `turn` first."""
        if units > self._amount:
            return None
        lacking = min(units, self._burst) - self._level
        if lacking <= SLACK * self._amount:
            return 0.0
        return lacking / self._refill_per_s(self._share)

    def grant(self, units: float) -> None:
        self._level -= units

    def give_back(self, units: float) -> None:
        """Return *units* of what was granted to the bucket. Negative: more was used."""
        self._level = min(self._burst, self._level + units)

    @property
    def _burst(self) -> float:
        return max(self._least_burst, self._amount * BURST_SHARE * self._share)

    def _refill_per_s(self, share: float) -> float:
        return self._amount * (1.0 - BURST_SHARE) * share / 60.0
