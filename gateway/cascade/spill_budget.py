"""What the fallbacks of one model may cost within an hour, and how many of its requests may go there.

1. What a request may cost is held from before it is sent until it is known what it did cost.
2. Held and spent together never exceed the limit when a request is let in. What is spent may exceed what was held
   only where a fallback counts more tokens than were expected.
"""

from typing import Literal

import msgspec

from gateway.cascade.sliding_sum import SlidingSum
from gateway.ledger.price import HOUR_S

MINUTE_S = 60.0
FLOOR = 3
"""Requests a minute that a share lets pass however little traffic there is: with none, the first could never spill."""
SETTLED_SOON_S = 5.0
"""When to ask again if all the room is held by requests under way, which mostly cost less than what is held."""
SLACK_USD = 1e-9
"""Sums of doubles: a nano-dollar."""


class SpillLimits(msgspec.Struct, frozen=True):
    usd_per_hour: float | None = None
    share: float | None = None
    """Of the model's requests of the last minute; 0: none at all."""


class Lack(msgspec.Struct, frozen=True):
    """What there is no room for."""

    of: Literal["budget", "share"]
    wait_s: float | None
    """Until there may be room; None: never for this request."""


class Spill:
    """One request's part of the budget, until it is settled."""

    __slots__ = ("usd",)

    def __init__(self, usd: float) -> None:
        self.usd = usd


class SpillBudget:
    """Of one model. Seconds are monotonic."""

    def __init__(self) -> None:
        self._spent = SlidingSum(HOUR_S, MINUTE_S)
        self._requests = SlidingSum(MINUTE_S, 1.0)
        self._spilled = SlidingSum(MINUTE_S, 1.0)
        self._held: dict[Spill, float] = {}
        self._held_usd = 0.0

    def note_request(self, now: float) -> None:
        """A request for the model came, whoever is to answer it."""
        self._requests.add(1.0, now)

    def lack(self, limits: SpillLimits, usd: float, now: float) -> Lack | None:
        """What a request that may cost *usd* has no room in; None: it may go."""
        if limits.share is not None:
            floor = FLOOR if limits.share > 0.0 else 0
            if self._spilled.total(now) + 1.0 > max(floor, limits.share * self._requests.total(now)):
                return Lack("share", self._spilled.falls_by_s(1.0, now))
        if limits.usd_per_hour is not None:
            over = self.spent_usd(now) + self._held_usd + usd - limits.usd_per_hour
            if over > SLACK_USD:
                return Lack("budget", self._room_in_s(limits.usd_per_hour, usd, over, now))
        return None

    def reserve(self, usd: float, now: float) -> Spill:
        """Hold *usd*. Whether there is room was asked just before."""
        spill = Spill(usd)
        self._held[spill] = now
        self._held_usd += usd
        self._spilled.add(1.0, now)
        return spill

    def settle(self, spill: Spill, usd: float, now: float) -> None:
        """*usd* were spent, instead of what was held."""
        self._release(spill)
        self._spent.add(usd, now)

    def give_back(self, spill: Spill, now: float) -> None:
        """Nobody was served, and nothing was spent."""
        reserved_at = self._held[spill]
        self._release(spill)
        if now - reserved_at < MINUTE_S:
            self._spilled.add(-1.0, now)

    def spent_usd(self, now: float) -> float:
        """Within the last hour, without what is held."""
        return self._spent.total(now)

    @property
    def held_usd(self) -> float:
        return self._held_usd

    def _release(self, spill: Spill) -> None:
        del self._held[spill]
        self._held_usd = self._held_usd - spill.usd if self._held else 0.0  # so that rounding errors do not add up

    def _room_in_s(self, limit: float, usd: float, over: float, now: float) -> float | None:
        if usd > limit + SLACK_USD:
            return None
        falls_s = self._spent.falls_by_s(over, now)
        return SETTLED_SOON_S if falls_s is None else falls_s
