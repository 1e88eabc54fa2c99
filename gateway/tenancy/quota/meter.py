"""Meter of one limit, with all quota arithmetic. `redis_meters.lua` does the same arithmetic in Redis."""

import math
from typing import Final

from gateway.tenancy.quota.limit import Charge, Level, Limit

SLACK_S: Final = 1e-6
"""Tolerance in seconds for a bucket to count as full. A double has no finer resolution for seconds since 1970."""
SLACK_UNITS: Final = 1e-9
"""Units by which a sum can exceed its limit without a refusal. They amount to a nano-dollar."""
CONCURRENT_WAIT_S = 1.0
"""Seconds to wait for a concurrency limit. The end of a request cannot be predicted, and one retry per second costs
little.
"""


class Meter:
    """State of one quota limit."""

    __slots__ = (
        "alert",
        "amount",
        "burst",
        "checkpoint",
        "edition",
        "ends",
        "full_in_s",
        "generation",
        "granted",
        "is_concurrent",
        "is_gone",
        "is_past",
        "is_rate",
        "left",
        "limit",
        "noted",
        "period",
        "slot",
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
        """State of the limit. For rates and periods, see `MeterState`. For a concurrency limit, it is the number of
        active requests.
        """
        self.granted = 0.0
        """Value after the grant if all other limits of the request can grant it, too; see `has_room`."""
        self.left = 0.0
        """Units of the limit that remain after a grant of the requested units."""
        self.full_in_s = 0.0
        """Seconds until the bucket of a rate limit is full after a grant of the requested units."""
        self.period = ""
        self.ends = 0.0
        self.is_past = False
        """Whether the period of the meter has ended and another meter has replaced it."""
        self.is_gone = False
        """Whether the meter was dropped, because its period is over or because it was unused."""
        self.alert = math.inf if self.is_concurrent else alert
        """Threshold of `value` above which the meter is added to `Meters.alerted`."""
        self.unlikely = 0.0
        """Part of `value` that active requests have reserved beyond their likely use."""
        self.noted = 0.0
        """Value of `unlikely` that was written to the file last."""
        self.checkpoint = self.alert
        """Checkpoint of the meter in the file, which is at or above `value`."""
        # Place in the table that several processes share, see `gateway.tenancy.quota.meter_table`.
        self.slot = 0
        self.generation = self.edition = -1

    def use_limit(self, limit: Limit) -> None:
        """Count for *limit* from now on. It must be of the same kind, but its amount can be different."""
        self.limit = limit
        self.amount = limit.amount
        self.burst = limit.burst
        self.unit_s = 60.0 / limit.amount
        """Seconds in which a rate limit regains one unit."""

    def has_room(self, units: float, now: float) -> bool:
        """Return whether *units* can be granted. If so, set `granted`, `left` and `full_in_s` to the state after the
        grant.
        """
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
        """Reserve the units of the last call of `has_room`. *unlikely* of these units are beyond the likely use.

        Returns:
            Whether `value` now exceeds `alert`.
        """
        self.unlikely += unlikely
        value = self.value = self.granted
        return value > self.alert

    def settle(self, reserved: float, used: float, unlikely: float, unit_s: float) -> bool:
        """Replace *reserved* units with *used* units. *unlikely* and *unit_s* are the values from the reservation.

        Returns:
            Whether `value` now exceeds `alert`.
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
        """Return the seconds until *charge* could be granted without other requests, which are 0 if it fits now, and
        infinity if it never fits.
        """
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
        """Return the current state of the limit. *charge* contains the time when the period ends."""
        limit = self.limit
        if self.is_rate:
            full_in_s = self.value - now
            if full_in_s <= 0.0:
                return Level(limit.burst, 0.0)
            remaining = limit.burst - full_in_s * limit.amount / 60.0
            return Level(max(0.0, remaining), full_in_s)
        remaining = limit.amount - self.value
        return Level(max(0.0, remaining), charge.period_left_s)
