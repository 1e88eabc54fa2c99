"""One limit of one scope, and what a request takes of it.

Classes with slots and no Structs: dozens of their fields are read for every request, and a compiled module reads those
of its own classes far faster than those of a Struct (`deploy/compile_core.py`).
"""

from typing import Literal

Kind = Literal["rate", "period", "concurrent"]


class Value:
    """Never changed once it is made; equal to what is of the same class and has the same fields."""

    __slots__ = ()

    def fields(self) -> tuple[object, ...]:
        """In the order in which they are given."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and type(self) is type(other) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(self.fields())

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.fields()!r}"


class Limit(Value):
    """Counted in *units*: requests, tokens (weighted, so fractions occur) or US dollars."""

    __slots__ = ("amount", "burst", "id", "kind")

    def __init__(self, id: str, kind: Kind, amount: float, burst: float = 0.0) -> None:  # noqa: A002
        self.id = id
        """Unique within the team, e.g. ``key:ci/tokens_per_minute`` or ``team:blue/model:tiny/usd_per_day``."""
        self.kind: Kind = kind
        self.amount = amount
        """rate: units per minute. period: units until the period ends. concurrent: at once."""
        self.burst = burst
        """rate: units at once. What takes more, but no more than *amount*, passes a full bucket and leaves a debt."""

    def fields(self) -> tuple[object, ...]:
        return self.id, self.kind, self.amount, self.burst


class Charge(Value):
    __slots__ = ("limit", "period", "period_left_s", "units")

    def __init__(self, limit: Limit, units: float, period: str = "", period_left_s: float = 0.0) -> None:
        self.limit = limit
        self.units = units
        """concurrent: 1."""
        self.period = period
        """period: its name, e.g. ``2026-11-21`` or ``2026-11``: another name begins at nought."""
        self.period_left_s = period_left_s
        """period: until it ends."""

    def fields(self) -> tuple[object, ...]:
        return self.limit, self.units, self.period, self.period_left_s


class Level(Value):
    """How a limit stands after what was decided. Those of `gateway.quota.seats` say so until the next decision."""

    __slots__ = ("remaining", "reset_s")

    def __init__(self, remaining: float, reset_s: float) -> None:
        self.remaining = remaining
        """Units that would be granted now; never below 0."""
        self.reset_s = reset_s
        """Until all of it is there again: rate: the bucket is full; period: it ends; concurrent: 0."""

    def fields(self) -> tuple[object, ...]:
        return self.remaining, self.reset_s


class Granted(Value):
    __slots__ = ("levels",)

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self.levels = levels
        """In the order of the charges."""

    def fields(self) -> tuple[object, ...]:
        return (self.levels,)


class Refused(Value):
    """Nothing was charged."""

    __slots__ = ("binding", "levels", "wait_s")

    def __init__(self, binding: int, wait_s: float, levels: tuple[Level, ...]) -> None:
        self.binding = binding
        """Index of the charge whose limit takes longest to have room."""
        self.wait_s = wait_s
        """Until it would have; infinite: never, the request takes more than the limit is. Of concurrent: 1."""
        self.levels = levels

    def fields(self) -> tuple[object, ...]:
        return self.binding, self.wait_s, self.levels
