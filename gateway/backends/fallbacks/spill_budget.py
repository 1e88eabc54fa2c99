"""Budget for one model's fallbacks: dollars per hour, and the fraction of its requests that fallbacks can serve.

1. The most that a request may cost is reserved before it is sent, until its actual cost is known.
2. Reserved and spent dollars together never exceed the limit when a request is admitted. The limit can be exceeded
   later only if a fallback counts more tokens than expected.
"""

from typing import Literal

import msgspec

from gateway.backends.fallbacks.sliding_sum import SlidingSum
from gateway.tenancy.ledger.price import HOUR_S

MINUTE_S = 60.0
FLOOR = 3
"""Number of requests per minute that are always allowed. Otherwise, the first request could never use a fallback."""
SETTLED_SOON_S = 5.0
"""Retry delay in seconds if running requests have reserved the whole budget. Most cost less than they reserve."""
SLACK_USD = 1e-9
"""Tolerance in dollars for rounding errors in sums of floating-point numbers."""


class SpillLimits(msgspec.Struct, frozen=True):
    usd_per_hour: float | None = None
    share: float | None = None
    """Maximum fraction of the model's requests in the last minute that fallbacks can serve. 0 forbids fallbacks."""


class NoRoom(msgspec.Struct, frozen=True):
    """Budget limit that a request would exceed."""

    of: Literal["budget", "share"]
    wait_s: float | None
    """Seconds until the limit might allow the request, or None if it never will."""


class HeldBudget:
    """Dollars that a request reserves until its actual cost is known."""

    __slots__ = ("usd",)

    def __init__(self, usd: float) -> None:
        self.usd = usd


class SpillBudget:
    """Budget for the fallbacks of one model. All times are monotonic seconds."""

    def __init__(self) -> None:
        self._spent = SlidingSum(HOUR_S, MINUTE_S)
        self._requests = SlidingSum(MINUTE_S, 1.0)
        self._spilled = SlidingSum(MINUTE_S, 1.0)
        self._held: dict[HeldBudget, float] = {}
        self._held_usd = 0.0

    def note_request(self, now: float) -> None:
        """Count a request for the model, whether or not a fallback will answer it."""
        self._requests.add(1.0, now)

    def lack(self, limits: SpillLimits, usd: float, now: float) -> NoRoom | None:
        """Return the limit that a request costing up to *usd* dollars would exceed, or None if it is allowed."""
        if limits.share is not None:
            floor = FLOOR if limits.share > 0.0 else 0
            if self._spilled.total(now) + 1.0 > max(floor, limits.share * self._requests.total(now)):
                return NoRoom("share", self._spilled.falls_by_s(1.0, now))
        if limits.usd_per_hour is not None:
            over = self.spent_usd(now) + self._held_usd + usd - limits.usd_per_hour
            if over > SLACK_USD:
                return NoRoom("budget", self._room_in_s(limits.usd_per_hour, usd, over, now))
        return None

    def reserve(self, usd: float, now: float) -> HeldBudget:
        """Reserve *usd* dollars of the budget. Call this only directly after `lack` has returned None."""
        spill = HeldBudget(usd)
        self._held[spill] = now
        self._held_usd += usd
        self._spilled.add(1.0, now)
        return spill

    def settle(self, spill: HeldBudget, usd: float, now: float) -> None:
        """Replace a reservation with the dollars *usd* that were actually spent."""
        self._release(spill)
        self._spent.add(usd, now)

    def give_back(self, spill: HeldBudget, now: float) -> None:
        """Release a budget reservation of a request that spent nothing."""
        reserved_at = self._held[spill]
        self._release(spill)
        if now - reserved_at < MINUTE_S:
            self._spilled.add(-1.0, now)

    def spent_usd(self, now: float) -> float:
        """Return the dollars that were spent in the last hour, without reservations."""
        return self._spent.total(now)

    @property
    def held_usd(self) -> float:
        return self._held_usd

    def _release(self, spill: HeldBudget) -> None:
        del self._held[spill]
        self._held_usd = self._held_usd - spill.usd if self._held else 0.0  # so that rounding errors do not add up

    def _room_in_s(self, limit: float, usd: float, over: float, now: float) -> float | None:
        if usd > limit + SLACK_USD:
            return None
        falls_s = self._spent.falls_by_s(over, now)
        return SETTLED_SOON_S if falls_s is None else falls_s
