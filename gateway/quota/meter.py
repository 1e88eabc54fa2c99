"""How one limit stands: the arithmetic of `gateway.quota.meters`, which says what holds of it."""

import math
from typing import Final

from gateway.quota.limit import Charge, Level, Limit

SLACK_S: Final = 1e-6
"""A bucket that is full but for this is full: seconds since 1970 have no finer digits in a double."""
SLACK_UNITS: Final = 1e-9
"""The same for sums: a nano-dollar."""
CONCURRENT_WAIT_S = 1.0
"""When a request ends cannot be known; asking once a second harms nobody."""


class Meter:
    """How one limit stands."""

    __slots__ = (
        "alert",
        "amount",
        "burst",
        "ends",
        "full_in_s",
        "granted",
        "is_concurrent",
        "is_gone",
        "is_past",
        "is_rate",
        "left",
        "limit",
        "mark",
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
        self.take(limit)
        self.value = 0.0
        """As `MeterState`; concurrent: how many there are."""
        self.granted = 0.0
        """What *value* becomes if all other limits of a request have room as well: see `has_room`."""
        self.left = 0.0
        """What there is then."""
        self.full_in_s = 0.0
        """rate: when all of it is there again then."""
        self.period = ""
        self.ends = 0.0
        self.is_past = False
        """Another took its place: its period is over."""
        self.is_gone = False
        """It is found no more: it is past, or nobody used it."""
        self.alert = math.inf if self.is_concurrent else alert
        """Once *value* is above, the meter stands in `Meters.alerted`: for whoever keeps a copy."""
        self.unlikely = 0.0
        """Of *value*, what requests that run have reserved beyond what they are likely to use."""
        self.noted = 0.0
        """What the copy says of that, for its keeper."""
        self.mark = self.alert
        """What the copy says, for its keeper."""

    def take(self, limit: Limit) -> None:
        """Have *limit* from now on: of the same kind, but it may give more or less."""
        self.limit = limit
        self.amount = limit.amount
        self.burst = limit.burst
        self.unit_s = 60.0 / limit.amount
        """rate: in which one unit comes back."""

    def has_room(self, units: float, now: float) -> bool:
        """Whether *units* can be granted; then `granted`, `left` and `full_in_s` say how it will stand."""
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

    def room_s(self, now: float) -> float:
        """rate: how much of the burst is there, in seconds of refill; negative: a debt beyond it."""
        burst_s = self.limit.burst * 60.0 / self.limit.amount
        return burst_s if self.value <= now else burst_s - (self.value - now)

    def wait_s(self, charge: Charge, now: float) -> float:
        """Until *charge* would be granted if nothing else happened; 0: now; infinite: never."""
        units, limit = charge.units, self.limit
        if units <= 0.0:
            return 0.0
        if units > limit.amount + SLACK_UNITS:
            return math.inf
        if self.is_rate:
            lacking_s = min(units, limit.burst) * 60.0 / limit.amount - self.room_s(now)
            return lacking_s if lacking_s > SLACK_S else 0.0
        if self.value + units <= limit.amount + SLACK_UNITS:
            return 0.0
        return CONCURRENT_WAIT_S if limit.kind == "concurrent" else charge.period_left_s

    def level(self, charge: Charge, now: float) -> Level:
        """How it stands; *charge* tells when the period ends."""
        limit = self.limit
        if self.is_rate:
            full_in_s = self.value - now
            if full_in_s <= 0.0:
                return Level(limit.burst, 0.0)
            remaining = limit.burst - full_in_s * limit.amount / 60.0
            return Level(max(0.0, remaining), full_in_s)
        remaining = limit.amount - self.value
        return Level(max(0.0, remaining), charge.period_left_s)
