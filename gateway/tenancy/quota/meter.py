"""The meter of one limit: all arithmetic of quotas. `redis_meters.lua` does the same in Redis."""

import math
from typing import Final

from gateway.tenancy.quota.limit import Charge, Level, Limit

SLACK_S: Final = 1e-6
"""A bucket that lacks less than this counts as full: a double holds no finer digits of seconds since 1970."""
SLACK_UNITS: Final = 1e-9
"""The same for sums: a nano-dollar."""
CONCURRENT_WAIT_S = 1.0
"""Wait for a concurrent limit: the end of a request cannot be known, and a retry per second is cheap."""


class Meter:
    """State of one limit."""

    __slots__ = (
        "alert",
        "amount",
        "burst",
        "checkpoint",
        "ends",
        "full_in_s",
        "granted",
        "is_concurrent",
        "is_gone",
        "is_past",
        "is_rate",
        "left",
        "limit",
        "noted",
        "period",
        "team",
        "unit_s",
        "unlikely",
        "value",
    )

    def __init__(self, team: str, limit: Limit, alert: float) -> None:
        self.team = team
        self.is_rate = limit.kind == "rate"
        self.is_concurrent = limit.kind == "concurrent"
        self.use_limit(limit)
        self.value = 0.0
        """rate and period: see `MeterState`. concurrent: requests that run."""
        self.granted = 0.0
        """The next `value`, if all other limits of the request have room too: see `has_room`."""
        self.left = 0.0
        """Units left after that."""
        self.full_in_s = 0.0
        """rate: time until the bucket is full after that."""
        self.period = ""
        self.ends = 0.0
        self.is_past = False
        """Whether its period has ended and another meter replaced it."""
        self.is_gone = False
        """Whether its period is over, or it was dropped as unused."""
        self.alert = math.inf if self.is_concurrent else alert
        """Once `value` exceeds this, the meter is listed in `Meters.alerted`."""
        self.unlikely = 0.0
        """Part of `value` that running requests have reserved beyond their likely use."""
        self.noted = 0.0
        """`unlikely` as the file has it."""
        self.checkpoint = self.alert
        """`value` as the file has it, or more."""

    def use_limit(self, limit: Limit) -> None:
        """Count for *limit* from now on: the same kind, perhaps with another amount."""
        self.limit = limit
        self.amount = limit.amount
        self.burst = limit.burst
        self.unit_s = 60.0 / limit.amount
        """rate: time in which one unit comes back."""

    def has_room(self, units: float, now: float) -> bool:
        """Return whether *units* can be granted. If so, `granted`, `left` and `full_in_s` hold the state after that."""
        value = self.value
        if self.is_rate:
            unit_s = self.unit_s
            burst_s, taken_s = self.burst * unit_s, units * unit_s
            ahead_s = value - now if value > now else 0.0
            room_s = burst_s + SLACK_S - ahead_s
            if units > 0.0 and ((room_s < taken_s and room_s < burst_s) or units > self.amount + SLACK_UNITS):
                return False
            ahead_s += taken_s
            self.granted = now + ahead_s
            self.full_in_s = ahead_s
            left = self.burst - ahead_s / unit_s
        else:
            value += units
            left = self.amount - value
            if units > 0.0 and left < -SLACK_UNITS:
                return False
            self.granted = value
        self.left = left if left > 0.0 else 0.0  # noqa: FURB136  # max() is slower
        return True

    def grant(self, unlikely: float) -> bool:
        """Reserve the units of the last `has_room`, *unlikely* of which are beyond the likely use.

        Returns:
            Whether `value` exceeds `alert` now.
        """
        self.unlikely += unlikely
        value = self.value = self.granted
        return value > self.alert

    def settle(self, reserved: float, used: float, unlikely: float, unit_s: float) -> bool:
        """Replace *reserved* units by *used*; *unlikely* and *unit_s* come from the reservation.

        Returns:
            Whether `value` exceeds `alert` now.
        """
        if self.is_concurrent:
            self.value -= reserved
            return False
        self.unlikely -= unlikely
        more = used - reserved
        if self.is_rate:
            value = self.value + more * unit_s
        else:
            value = self.value + more
            value = value if value > 0.0 else 0.0  # noqa: FURB136  # below 0 after a refund; max() is slower
        self.value = value
        return value > self.alert

    def wait_s(self, charge: Charge, now: float) -> float:
        """Return the time until *charge* would be granted if nothing else happened. 0: now; infinite: never."""
        units, limit = charge.units, self.limit
        if units <= 0.0:
            return 0.0
        if units > limit.amount + SLACK_UNITS:
            return math.inf
        if self.is_rate:
            burst_s = limit.burst * self.unit_s
            room_s = burst_s if self.value <= now else burst_s - (self.value - now)  # negative: a debt
            lacking_s = min(units, limit.burst) * self.unit_s - room_s
            return lacking_s if lacking_s > SLACK_S else 0.0
        if self.value + units <= limit.amount + SLACK_UNITS:
            return 0.0
        if self.is_concurrent:
            return CONCURRENT_WAIT_S
        left_s = charge.period_left_s if self.period == charge.period else self.ends - now
        return max(left_s, SLACK_S)

    def level(self, charge: Charge, now: float) -> Level:
        """Return the state of the limit; *charge* says when the period ends."""
        limit = self.limit
        if self.is_rate:
            full_in_s = self.value - now
            if full_in_s <= 0.0:
                return Level(limit.burst, 0.0)
            remaining = limit.burst - full_in_s * limit.amount / 60.0
            return Level(max(0.0, remaining), full_in_s)
        remaining = limit.amount - self.value
        return Level(max(0.0, remaining), charge.period_left_s)
