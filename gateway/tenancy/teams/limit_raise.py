"""Temporary raise of a limit, which an operator gives for a reason and which ends by itself."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from gateway.tenancy.teams.limits import Measure

MAX_RAISES: Final = 50
"""Maximum number of raises of one team, and of one key, that have not ended."""
MAX_REASON: Final = 300
"""Maximum number of characters in the reason for a raise."""

RaiseScope = Literal["key", "user", "session", "project", "team"]


class LimitRaise(msgspec.Struct, frozen=True, omit_defaults=True):
    """Raise of one limit. Raises of keys are stored with the key, and all others with the team."""

    id: str
    scope: RaiseScope
    name: str
    """Name of the owner of the limit, as in messages about limits. It is empty for requests that name no end user."""
    measure: Measure
    amount: float
    """Amount of the limit while the raise lasts. A limit that is higher by itself stays as it is."""
    until: float
    """Time at which the raise ends, in seconds since 1970."""
    reason: str
    model: str | None = None
    """Model to whose limit the raise applies, or None for the limit for all models together."""
    created_at: float = 0.0
    created_by: str = ""
    """Id of the admin key of the person who gave the raise."""

    def applies_to(self, scope: RaiseScope, name: str, model: str | None, measure: Measure) -> bool:
        """Return whether the raise is one of the given limit."""
        return (self.scope, self.name, self.model, self.measure) == (scope, name, model, measure)


def live_raises(raises: Iterable[LimitRaise], now: float) -> tuple[LimitRaise, ...]:
    """Return those of *raises* that have not ended at *now*, in seconds since 1970."""
    return tuple(each for each in raises if now < each.until)


def raised_amount(  # the identity of a limit
    amount: float,
    raises: Sequence[LimitRaise],
    *,
    scope: RaiseScope,
    name: str,
    model: str | None,
    measure: Measure,
    now: float,
) -> float:
    """Return the *amount* of a limit, or the highest amount to which *raises* raise it at *now*."""
    for each in raises:
        if now < each.until and each.amount > amount and each.applies_to(scope, name, model, measure):
            amount = each.amount
    return amount
