"""One limit of one scope, and what a request takes of it."""

from typing import Literal

from cache_index.value import Value

Kind = Literal["rate", "period", "concurrent"]


class Limit(Value):
    """Counted in *units*: requests, tokens (weighted, so fractions occur) or US dollars."""

    __match_args__ = ("id", "kind", "amount", "burst")
    __slots__ = __match_args__

    def __init__(self, id: str, kind: Kind, amount: float, burst: float = 0.0) -> None:  # noqa: A002
        self.id = id
        """Unique within the team, e.g. ``key:ci/tokens_per_minute`` or ``team:blue/model:tiny/usd_per_day``."""
        self.kind: Kind = kind
        self.amount = amount
        """rate: units per minute. period: units until the period ends. concurrent: at once."""
        self.burst = burst
        """rate: units at once. What takes more, but no more than *amount*, passes a full bucket and leaves a debt."""


class Charge(Value):
    __match_args__ = ("limit", "units", "period", "period_left_s", "likely")
    __slots__ = __match_args__

    def __init__(
        self, limit: Limit, units: float, period: str = "", period_left_s: float = 0.0, likely: float = -1.0
    ) -> None:
        """*likely* below 0: as *units*."""
        self.limit = limit
        self.units = units
        """concurrent: 1."""
        self.likely = likely if likely >= 0.0 else units
        """Settled where the outcome is never known: a budget reserves the most that a request may use, not this."""
        self.period = period
        """period: its name, e.g. ``2026-11-21`` or ``2026-11``: another name begins at nought."""
        self.period_left_s = period_left_s
        """period: until it ends."""


class Level(Value):
    """How a limit stands after what was decided. Those of `gateway.quota.seats` say so until the next decision."""

    __match_args__ = ("remaining", "reset_s")
    __slots__ = __match_args__

    def __init__(self, remaining: float, reset_s: float) -> None:
        self.remaining = remaining
        """Units that would be granted now; never below 0."""
        self.reset_s = reset_s
        """Until all of it is there again: rate: the bucket is full; period: it ends; concurrent: 0."""


class Granted(Value):
    __match_args__ = ("levels",)
    __slots__ = __match_args__

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self.levels = levels
        """In the order of the charges."""


class Refused(Value):
    """Nothing was charged."""

    __match_args__ = ("binding", "wait_s", "levels")
    __slots__ = __match_args__

    def __init__(self, binding: int, wait_s: float, levels: tuple[Level, ...]) -> None:
        self.binding = binding
        """Index of the charge whose limit takes longest to have room."""
        self.wait_s = wait_s
        """Until it would have; infinite: never, the request takes more than the limit is. Of concurrent: 1."""
        self.levels = levels
