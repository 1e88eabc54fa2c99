"""How limits stand, told without charging anything: for a caller who wants to know, not for a request."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.ledger.entry import Entry
from gateway.ledger.record import UsageRecord
from gateway.quota.limit import Charge, Level, Refused
from gateway.quota.plan import Plan
from gateway.quota.quota_store import QuotaStore
from gateway.quota.scope import Scoped

_NEVER = Entry.of(
    "",
    UsageRecord(
        time="",
        request_id="",
        team="",
        project=None,
        key="",
        user=None,
        model_asked="",
        model="",
        backend=None,
        outcome="lost",
        status=0,
        prompt_tokens=0,
        cached_tokens=0,
        completion_tokens=0,
        cost_usd=0.0,
        saved_usd=0.0,
        fell_back=False,
        ttft_ms=None,
        duration_ms=0.0,
    ),
)
"""What would be booked of a reservation that is never granted: a store may ask for it before it has decided."""


@dataclass(frozen=True, slots=True)
class Standing:
    scoped: Scoped
    level: Level


async def standing(store: QuotaStore, team: str, plans: Iterable[Plan], now: float) -> list[Standing]:
    """Every limit of *plans*, all of *team*, once, and what is left of it. At most one round trip.

    The store is asked for more than any of the limits ever gives: what is refused changes nothing, and tells how they
    stand. *now*, in seconds since 1970, says which day it is.

    Raises:
        StoreAway: it cannot be told.
    """
    known: dict[str, tuple[Scoped, Charge]] = {}
    for plan in plans:
        for scoped, charge in zip(plan.scoped, plan.nothing(now), strict=True):
            too_much = Charge(charge.limit, 2 * charge.limit.amount + 1, charge.period, charge.period_left_s)
            known.setdefault(charge.limit.id, (scoped, too_much))
    if not known:
        return []
    decision = await store.reserve(team, uuid.uuid4().hex, [charge for _, charge in known.values()], lambda: _NEVER)
    assert isinstance(decision, Refused), "nobody has room for more than there is"
    return [Standing(scoped, level) for (scoped, _), level in zip(known.values(), decision.levels, strict=True)]
