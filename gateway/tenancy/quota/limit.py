"""A limit, what a request takes of it, and what a store answers."""

from typing import Final, Literal

from cache_index.value import Value

Kind = Literal["rate", "period", "concurrent"]

# What a limit counts of a request. Numbers, because they are compared for every limit of every request.
ONE: Final = 0
"""One per request."""
PROMPT: Final = 1
"""Prompt tokens, weighted."""
COMPLETION: Final = 2
BOTH: Final = 3
"""Prompt and completion tokens, the former weighted."""
USD: Final = 4
"""US dollars, with the longest possible answer."""
MOST: Final = 5
"""The tokens of BOTH with the longest possible answer, so that a long answer never exceeds a budget."""

# When a limit starts again at zero.
NEVER: Final = 0
DAY: Final = 1
MONTH: Final = 2


class Limit(Value):
    """A limit of one scope. Its units are requests, tokens (weighted, so fractions occur) or US dollars."""

    __match_args__ = ("id", "kind", "amount", "burst")
    __slots__ = __match_args__

    def __init__(self, id: str, kind: Kind, amount: float, burst: float = 0.0) -> None:  # noqa: A002
        self.id = id
        """Unique within the team, e.g. ``key:ci/tokens_per_minute`` or ``team:blue/model:tiny/usd_per_day``."""
        self.kind: Kind = kind
        self.amount = amount
        """rate: units per minute. period: units per period. concurrent: units at the same time."""
        self.burst = burst
        """Burst of a rate, in units. A request for more, up to *amount*, passes a full bucket and leaves a debt."""


class Charge(Value):
    """Units that one request takes of one limit."""

    __match_args__ = ("limit", "units", "period", "period_left_s", "likely")
    __slots__ = __match_args__

    def __init__(
        self, limit: Limit, units: float, period: str = "", period_left_s: float = 0.0, likely: float = -1.0
    ) -> None:
        """A *likely* below 0 means the same as *units*."""
        self.limit = limit
        self.units = units
        """concurrent: 1."""
        self.likely = likely if likely >= 0.0 else units
        """Units charged if the outcome is never known. A budget reserves more: the most that a request can use."""
        self.period = period
        """period: its name, e.g. ``2026-11-21`` or ``2026-11``. Another name starts at zero."""
        self.period_left_s = period_left_s
        """period: time until it ends."""


class PlanLimit:
    """A limit of a plan, what it counts, and its period."""

    __slots__ = ("limit", "one", "period", "what")

    def __init__(self, limit: Limit, what: int, period: int) -> None:
        self.limit = limit
        self.what = what
        self.period = period
        self.one = Charge(limit, 1.0)
        """The charge of every request, if it counts ONE."""


class Level(Value):
    """State of a limit after a decision. Levels of `PlanMeters` are overwritten by its next decision."""

    __match_args__ = ("remaining", "reset_s")
    __slots__ = __match_args__

    def __init__(self, remaining: float, reset_s: float) -> None:
        self.remaining = remaining
        """Units that would be granted now; never below 0."""
        self.reset_s = reset_s
        """Time until all units are available again. rate: the bucket is full; period: it ends; concurrent: 0."""


class Granted(Value):
    """All charges were taken."""

    __match_args__ = ("levels",)
    __slots__ = __match_args__

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self.levels = levels
        """Levels in the order of the charges."""


class Refused(Value):
    """Refusal of a reservation; nothing was charged."""

    __match_args__ = ("binding", "wait_s", "levels")
    __slots__ = __match_args__

    def __init__(self, binding: int, wait_s: float, levels: tuple[Level, ...]) -> None:
        self.binding = binding
        """Index of the charge whose limit takes longest to have room."""
        self.wait_s = wait_s
        """Time until that limit has room. Infinite: the charge exceeds the limit. concurrent: always 1."""
        self.levels = levels
