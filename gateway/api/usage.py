"""`/v1/usage`: what a key has used, and what is left of its limits, for whoever has its secret.

1. Sums are the key's own: what other keys of the team have used is told by the admin API.
2. Limits are all those that a request of the key meets, the team's as well: they are in the headers of every answer.
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
from gateway.errors import UnknownEntity
from gateway.ledger.usage_store import Filter, Period, SumQuery, UsageStore, UsageSum
from gateway.models import Models
from gateway.quota.plan import Plans
from gateway.quota.quota_store import QuotaStore
from gateway.quota.standing import Standing, standing
from gateway.teams.caller import Caller
from gateway.teams.limits import Measure

router = APIRouter(tags=["usage"])

_REQUESTS: Measure = "requests_per_minute"
_DIGITS = 6
"""Of what is left: fractions of a cent, and of a token that weighs less."""


@dataclass(frozen=True, slots=True)
class SelfView:
    """What the route is made of: handed in by the composition root."""

    usage: UsageStore
    quota: QuotaStore
    plans: Plans
    models: Models
    zone: tzinfo
    """Whose months the ledger has."""
    wall_clock: Callable[[], float]
    """Seconds since 1970."""


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
    scope: Literal["key", "team"]
    name: str = Field(description="of the key or the team")
    model: str | None = Field(description="null: of all models together")
    measure: Measure
    amount: float = Field(description="units per minute, day or month, or at once")
    remaining: float = Field(description="units that would be granted at this moment")
    reset_s: float = Field(description="until all of it is there again")


class OwnUsage(BaseModel):
    object: Literal["usage"]
    team: str
    key: str
    project: str | None
    first_day: str = Field(serialization_alias="from")
    last_day: str = Field(serialization_alias="to")
    total: OwnSum
    models: list[OwnModel] = Field(description="the same for each model that was used")
    limits: list[OwnLimit]


def _self_view(request: Request) -> SelfView:
    view: SelfView = request.app.state.self_view
    return view


@router.get("/v1/usage", summary="What your key has used in a month, and what is left of its limits now")
async def read_own_usage(
    caller: AnyCaller,
    view: Annotated[SelfView, Depends(_self_view)],
    month: Annotated[str | None, Query(description="2026-11; none: this month")] = None,
) -> OwnUsage:
    if caller is None:
        raise UnknownEntity("Nothing is counted here: there are no teams and no keys")
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
        limits=[_limit(each) for each in await _standing(view, caller, now)],
    )


async def _standing(view: SelfView, caller: Caller, now: float) -> list[Standing]:
    """Of the limits of all models together, and of the models that are configured."""
    plans = [view.plans.of(caller, model.metered) for model in view.models]
    return await standing(view.quota, caller.team.name, plans, now)


def _limit(each: Standing) -> OwnLimit:
    scoped, level = each.scoped, each.level
    return OwnLimit(
        scope=scoped.scope,
        name=scoped.name,
        model=scoped.model,
        measure=scoped.measure,
        amount=scoped.limit.amount,
        # As in the headers of answers: a part of a request is none.
        remaining=floor(level.remaining) if scoped.measure == _REQUESTS else round(level.remaining, _DIGITS),
        reset_s=round(level.reset_s, _DIGITS),
    )


def _measures(each: UsageSum) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(each)
    del told["group"]
    return told
