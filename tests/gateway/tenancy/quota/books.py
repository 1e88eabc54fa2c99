"""What clients were granted and what they used, kept apart from any store, and what must hold of it at every moment."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.tenancy.quota.limit import Charge
from tests.gateway.tenancy.quota.examples import NOW

SLACK = 0.01
"""Units that rounding may make: a token per minute of 600 lasts 0.1 s, and times have digits of 2.4e-7 s."""


@dataclass
class Books:
    """Everything that was granted, refunded and used, kept apart from the meters, and what must hold of it."""

    balance: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Units taken: so far for a rate, by name for a period."""
    lowest: dict[str, float] = field(default_factory=dict)
    """Least balance of a rate beyond its refill at the start of any span. A span starts with a grant."""
    running: Counter[str] = field(default_factory=Counter)

    def grant(self, charges: Sequence[Charge], now: float) -> None:
        for charge in charges:
            limit, units = charge.limit, charge.units
            if limit.kind == "rate":
                ahead = self.balance[limit.id] - limit.amount / 60.0 * (now - NOW)
                lowest = self.lowest[limit.id] = min(self.lowest.get(limit.id, math.inf), ahead)
                self.balance[limit.id] += units
                if units > 0.0:
                    assert ahead + units - lowest <= max(limit.burst, units) + SLACK
            elif limit.kind == "period":
                self.balance[f"{limit.id} {charge.period}"] += units
                if units > 0.0:
                    assert self.balance[f"{limit.id} {charge.period}"] <= limit.amount + SLACK
            else:
                self.running[limit.id] += 1
                assert self.running[limit.id] <= limit.amount

    def settle(self, reserved: Sequence[Charge], used: Sequence[Charge]) -> None:
        for was, is_ in zip(reserved, used, strict=True):
            limit = was.limit
            if limit.kind == "concurrent":
                self.running[limit.id] -= 1
            else:
                place = f"{limit.id} {was.period}" if limit.kind == "period" else limit.id
                self.balance[place] += is_.units - was.units
