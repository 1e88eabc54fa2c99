"""Current state of a caller's limits, which can be read without a charge."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.record import UsageRecord
from gateway.tenancy.quota.limit import Charge, Level, Refused
from gateway.tenancy.quota.plan import Plan
from gateway.tenancy.quota.quota_store import QuotaStore
from gateway.tenancy.quota.scope import Scoped

_NEVER = Entry.from_record(
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
"""Ledger entry of a reservation that is never granted. Stores sometimes request an entry before they decide."""


@dataclass(frozen=True, slots=True)
class Owners:
    """Owners of limits within one team. None stands for no owner of the kind."""

    user: str | None = None
    """End user, or an empty string for requests that name no end user."""
    session: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class LimitStatus:
    scoped: Scoped
    level: Level


async def limit_status(store: QuotaStore, team: str, plans: Iterable[Plan], now: float) -> list[LimitStatus]:
    """Return every limit of *plans* once, with its remaining units. All plans must belong to *team*. Takes at most one
    round trip.

    The store is asked for more units than any limit can grant. The refusal changes nothing and contains the levels.
    *now*, in seconds since 1970, determines the day.

    Raises:
        StoreUnavailable: if the store cannot be reached.
    """
    known: dict[str, tuple[Scoped, Charge]] = {}
    for plan in plans:
        for scoped, charge in zip(plan.scoped, plan.nothing(now), strict=True):
            too_much = Charge(charge.limit, 2 * charge.limit.amount + 1, charge.period, charge.period_left_s)
            known.setdefault(charge.limit.id, (scoped, too_much))
    if not known:
        return []
    decision = await store.reserve(team, uuid.uuid4().hex, [charge for _, charge in known.values()], lambda: _NEVER)
    assert isinstance(decision, Refused), "a limit grants no more than it has"
    return [LimitStatus(scoped, level) for (scoped, _), level in zip(known.values(), decision.levels, strict=True)]
