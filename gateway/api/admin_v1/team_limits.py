"""`/admin/v1/teams/{name}/limits`: return the limits of a team with the amounts that are left."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from gateway.api.admin_access import Who, needs
from gateway.api.admin_v1.paging import Listed, listing
from gateway.api.admin_v1.parts import GatewayOfApp, PartsOfApp
from gateway.protocol.request_hints import MAX_NAME_LENGTH
from gateway.tenancy.quota.limit_status import LimitStatus, Owners
from gateway.tenancy.quota.scope import Scope
from gateway.tenancy.teams.limits import Measure

router = APIRouter(prefix="/admin/v1/teams", tags=["teams"])


class TeamLimitResponse(BaseModel):
    object: Literal["limit"]
    scope: Scope = Field(description="kind of the owner of the limit")
    name: str = Field(description="name of the owner of the limit; empty for requests that name no end user")
    measure: Measure
    model: str | None = Field(description="model to which the limit applies; null for all models together")
    amount: float = Field(description="units that the limit grants per minute, day or month, or at once")
    at_once: float = Field(description="units that can be used at once: less than the amount for limits per minute")
    remaining: float = Field(description="units that the limit would grant now")
    reset_s: float = Field(description="seconds until the full amount is available again")


class Whose(BaseModel):
    model_config = ConfigDict(extra="forbid")

    user: Annotated[str, Field(max_length=MAX_NAME_LENGTH)] | None = Field(
        default=None, description="end user whose limits are listed too; empty for requests that name no end user"
    )
    session: Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)] | None = Field(
        default=None, description="session whose limits are listed too"
    )
    project: Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)] | None = Field(
        default=None, description="project whose limits are listed too"
    )


@router.get(
    "/{name}/limits",
    summary="List the limits of a team with the amounts that are left",
    description="The limits apply to all keys of the team together. Limits of single keys are not listed. The limits "
    "of one end user, session or project of the team are listed if the query names it.",
    response_model=Listed[TeamLimitResponse],
    dependencies=[Depends(needs("viewer"))],
)
async def read_limits(
    name: str, which: Annotated[Whose, Query()], who: Who, parts: PartsOfApp, gateway: GatewayOfApp
) -> Response:
    who.team_within(name)
    await parts.entities.team(name)
    team = parts.entities.directory.teams[name]
    owners = Owners(user=which.user, session=which.session, project=which.project)
    found = [] if gateway.limits is None else await gateway.limits(team, owners)
    return JSONResponse(listing([_response(each) for each in found], None))


def _response(each: LimitStatus) -> dict[str, Any]:
    limit = each.scoped.limit
    return {
        "object": "limit",
        "scope": each.scoped.scope,
        "name": each.scoped.name,
        "measure": each.scoped.measure,
        "model": each.scoped.model,
        "amount": limit.amount,
        "at_once": round(limit.burst if limit.kind == "rate" else limit.amount, 6),
        "remaining": round(each.level.remaining, 6),
        "reset_s": round(each.level.reset_s, 6),
    }
