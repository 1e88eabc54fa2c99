"""`/admin/v1/teams/{name}/limits`: return the limits of a team with the amounts that are left."""

from typing import Any, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_access import Who, needs
from gateway.api.admin_v1.paging import Listed, listing
from gateway.api.admin_v1.parts import GatewayOfApp, PartsOfApp
from gateway.tenancy.quota.limit_status import LimitStatus
from gateway.tenancy.teams.limits import Measure

router = APIRouter(prefix="/admin/v1/teams", tags=["teams"])


class TeamLimitResponse(BaseModel):
    object: Literal["limit"]
    measure: Measure
    model: str | None = Field(description="model to which the limit applies; null for all models together")
    amount: float = Field(description="units that the limit grants per minute, day or month, or at once")
    at_once: float = Field(description="units that can be used at once: less than the amount for limits per minute")
    remaining: float = Field(description="units that the limit would grant now")
    reset_s: float = Field(description="seconds until the full amount is available again")


@router.get(
    "/{name}/limits",
    summary="List the limits of a team with the amounts that are left",
    description="The limits apply to all keys of the team together. Limits of single keys are not listed.",
    response_model=Listed[TeamLimitResponse],
    dependencies=[Depends(needs("viewer"))],
)
async def read_limits(name: str, who: Who, parts: PartsOfApp, gateway: GatewayOfApp) -> Response:
    who.team_within(name)
    team = await parts.entities.team(name)
    found = [] if gateway.limits is None else await gateway.limits(team)
    return JSONResponse(listing([_response(each) for each in found], None))


def _response(each: LimitStatus) -> dict[str, Any]:
    limit = each.scoped.limit
    return {
        "object": "limit",
        "measure": each.scoped.measure,
        "model": each.scoped.model,
        "amount": limit.amount,
        "at_once": round(limit.burst if limit.kind == "rate" else limit.amount, 6),
        "remaining": round(each.level.remaining, 6),
        "reset_s": round(each.level.reset_s, 6),
    }
