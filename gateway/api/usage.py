"""Route `/v1/usage`: return the usage and remaining limits of the caller's key.

1. The sums cover only the caller's key. The admin API reports the other keys of the team.
2. The limits are all that apply to a request of the key, including those of the team, as in the response headers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from math import floor
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field

from gateway.api.callers import AnyCaller
from gateway.models.registry import Models
from gateway.protocol.errors import UnknownEntity
from gateway.protocol.request_hints import MAX_NAME_LENGTH
from gateway.protocol.session_identity import scoped_session
from gateway.tenancy.ledger.usage_store import Filter, Period, SumQuery, UsageStore, UsageSum
from gateway.tenancy.quota.limit_status import LimitStatus, limit_status
from gateway.tenancy.quota.plan import Plans
from gateway.tenancy.quota.quota_store import QuotaStore
from gateway.tenancy.quota.scope import Scope
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.limits import Measure

router = APIRouter(tags=["usage"])

_REQUESTS: Measure = "requests_per_minute"
_DIGITS = 6
"""Number of decimal digits in remaining amounts, because amounts in dollars and weighted tokens have fractions."""


@dataclass(frozen=True, slots=True)
class SelfView:
    """Objects that the usage route needs, passed in by the composition root."""

    usage: UsageStore
    quota: QuotaStore
    plans: Plans
    models: Models
    zone: tzinfo
    """Time zone of the ledger's months."""
    wall_clock: Callable[[], float]
    """Function that returns the seconds since 1970."""


class OwnSum(BaseModel):
    requests: int
    failed: int
    aborted: int
    lost: int
    fallbacks: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    saved_usd: float
    fallback_cost_usd: float


class OwnModel(OwnSum):
    model: str | None


class OwnLimit(BaseModel):
    scope: Scope = Field(description="kind of the owner of the limit")
    name: str = Field(description="name of the owner of the limit; empty for requests that name no end user")
    model: str | None = Field(description="model to which the limit applies; null for all models together")
    measure: Measure
    amount: float = Field(description="kind of limit: per minute, per day, per month, or concurrent requests")
    remaining: float = Field(description="amount of the limit that is available now")
    reset_s: float = Field(description="seconds until the full amount is available again")


class OwnUsage(BaseModel):
    object: Literal["usage"]
    team: str
    key: str
    project: str | None
    first_day: str = Field(serialization_alias="from")
    last_day: str = Field(serialization_alias="to")
    total: OwnSum
    models: list[OwnModel] = Field(description="usage by model")
    limits: list[OwnLimit]


def _self_view(request: Request) -> SelfView:
    view: SelfView = request.app.state.self_view
    return view


@router.get("/v1/usage", summary="Return the monthly usage and the remaining limits of the caller's key")
async def read_own_usage(
    caller: AnyCaller,
    view: Annotated[SelfView, Depends(_self_view)],
    month: Annotated[str | None, Query(description="month, e.g. 2026-11; the current month if omitted")] = None,
    user: Annotated[
        str | None,
        Query(
            max_length=MAX_NAME_LENGTH, description="end user whose limits are shown; that of the token if it has one"
        ),
    ] = None,
    session: Annotated[
        str | None, Query(max_length=MAX_NAME_LENGTH, description="session whose limits are shown")
    ] = None,
) -> OwnUsage:
    if caller is None:
        raise UnknownEntity("Usage is not tracked, because no teams and no keys are configured")
    now = view.wall_clock()
    period = Period.month(month or datetime.fromtimestamp(now, view.zone).strftime("%Y-%m"))
    own = Filter(team=caller.team.name, key=caller.key.id)
    (total,) = await view.usage.sums(SumQuery(period=period, of=own))
    by_model = await view.usage.sums(SumQuery(period=period, of=own, by=("model",)))
    return OwnUsage(
        object="usage",
        team=caller.team.name,
        key=caller.key.id,
        project=caller.key.project,
        first_day=period.first_day,
        last_day=period.last_day,
        total=OwnSum(**_measures(total)),
        models=[OwnModel(model=each.group["model"], **_measures(each)) for each in by_model],
        limits=[_limit(each) for each in await _limit_status(view, caller, now, caller.end_user or user, session)],
    )


async def _limit_status(
    view: SelfView, caller: Caller, now: float, user: str | None, session: str | None
) -> list[LimitStatus]:
    """Return the status of the caller's limits for all models together and for each configured model."""
    session = scoped_session(session or None, caller.team_name)
    plans = [view.plans.plan_for(caller, model.metered, user, session, now=now) for model in view.models]
    return await limit_status(view.quota, caller.team.name, plans, now)


def _limit(each: LimitStatus) -> OwnLimit:
    scoped, level = each.scoped, each.level
    return OwnLimit(
        scope=scoped.scope,
        name=scoped.name,
        model=scoped.model,
        measure=scoped.measure,
        amount=scoped.limit.amount,
        # As in the headers of answers: requests are whole.
        remaining=floor(level.remaining) if scoped.measure == _REQUESTS else round(level.remaining, _DIGITS),
        reset_s=round(level.reset_s, _DIGITS),
    )


def _measures(each: UsageSum) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(each)
    del shown["group"]
    return shown
