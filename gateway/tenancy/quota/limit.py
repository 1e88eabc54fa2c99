"""Quota limits, the charges of a request against limits, and the possible answers of a store."""

from typing import Final, Literal

from cache_index.value import Value

Kind = Literal["rate", "period", "concurrent"]

# What a limit counts of a request. Numbers, because they are compared for every limit of every request.
ONE: Final = 0
"""Type of limit that counts each request as one unit."""
PROMPT: Final = 1
"""Type of limit that counts prompt tokens, with a lower weight for cached tokens."""
COMPLETION: Final = 2
BOTH: Final = 3
"""Type of limit that counts prompt and completion tokens, with a lower weight for cached prompt tokens."""
USD: Final = 4
"""Type of limit that counts US dollars and reserves the cost of the longest possible answer."""
MOST: Final = 5
"""Type of limit that counts the same tokens as BOTH but reserves the longest possible answer, so that no answer exceeds
a budget.
"""

# When a limit starts again at zero.
NEVER: Final = 0
DAY: Final = 1
MONTH: Final = 2


class Limit(Value):
    """Limit of a team, key, project, end user or session. It counts requests, US dollars, or tokens, which are weighted
    and can be fractions.
    """

    __match_args__ = ("id", "kind", "amount", "burst")
    __slots__ = __match_args__

    def __init__(self, id: str, kind: Kind, amount: float, burst: float = 0.0) -> None:  # noqa: A002
        self.id = id
        """Limit id, which is unique within the team, such as ``key:ci/tokens_per_minute`` or
        ``team:blue/model:tiny/usd_per_day``. Ids contain digests of names that callers choose.
        """
        self.kind: Kind = kind
        self.amount = amount
        """Amount of the limit: units per minute for a rate, units per period for a period, or simultaneous units for
        concurrency.
        """
        self.burst = burst
        """Burst of a rate limit in units. A full bucket admits a larger request, up to *amount*, by going into debt."""


class Charge(Value):
    """Units that one request takes from one limit."""

    __match_args__ = ("limit", "units", "period", "period_left_s", "likely")
    __slots__ = __match_args__

    def __init__(
        self, limit: Limit, units: float, period: str = "", period_left_s: float = 0.0, likely: float = -1.0
    ) -> None:
        """Create the charge. If *likely* is below 0, *units* is used instead."""
        self.limit = limit
        self.units = units
        """Number of units to reserve, which is always 1 for a concurrency limit."""
        self.likely = likely if likely >= 0.0 else units
        """Number of units to charge if the outcome is never known. A budget reserves more: the most that the request
        can use.
        """
        self.period = period
        """Name of the limit's period, such as ``2026-11-21`` or ``2026-11``. When the name changes, the count starts at
        zero.
        """
        self.period_left_s = period_left_s
        """Number of seconds until the end of the limit's period."""


class PlanLimit:
    """Limit of a plan, with the type of units that it counts and its period."""

    __slots__ = ("limit", "one", "period", "what")

    def __init__(self, limit: Limit, what: int, period: int) -> None:
        self.limit = limit
        self.what = what
        self.period = period
        self.one = Charge(limit, 1.0)
        """Charge of one unit per request, for limits that count requests."""


class Level(Value):
    """State of a limit after a decision. `PlanMeters` overwrites it at each decision."""

    __match_args__ = ("remaining", "reset_s")
    __slots__ = __match_args__

    def __init__(self, remaining: float, reset_s: float) -> None:
        self.remaining = remaining
        """Units that the limit would grant now, which are never below 0."""
        self.reset_s = reset_s
        """Seconds until all units are available again: until the bucket is full, or until the period ends. The value is
        always 0 for a concurrency limit.
        """


class Granted(Value):
    """Answer to a reservation whose charges were all granted."""

    __match_args__ = ("levels",)
    __slots__ = __match_args__

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self.levels = levels
        """State of each limit, in the same order as the charges."""


class Refused(Value):
    """Answer to a reservation that was refused. Nothing was charged."""

    __match_args__ = ("binding", "wait_s", "levels", "is_crowded")
    __slots__ = __match_args__

    def __init__(self, binding: int, wait_s: float, levels: tuple[Level, ...], is_crowded: bool = False) -> None:
        self.binding = binding
        """Index of the charge for which the wait is longest."""
        self.wait_s = wait_s
        """Seconds until the limit can grant the charge, or infinity if the charge exceeds the whole limit. The value is
        always 1 for a concurrency limit.
        """
        self.levels = levels
        self.is_crowded = is_crowded
        """Whether the store counts no further end user or session of the team now, so that it cannot count the limit of
        the charge *binding*.
        """
