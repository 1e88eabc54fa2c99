"""`/admin/v1/teams/{name}/raises` and `/admin/v1/keys/{key_id}/raises`: temporary raises of limits.

A raise ends by itself. It is stored with its team or key, so raises of teams and keys in the configuration are refused.
"""

import secrets
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from msgspec import structs
from pydantic import BaseModel, Field

from gateway.api.admin_access import AdminKey, Who, needs
from gateway.api.admin_v1.bodies import RaiseBody, TeamRaiseBody
from gateway.api.admin_v1.entities import retried
from gateway.api.admin_v1.json_body import body, takes
from gateway.api.admin_v1.paging import Listed, listing
from gateway.api.admin_v1.parts import Parts, PartsOfApp
from gateway.api.admin_v1.response_models import Json
from gateway.api.times import rfc3339
from gateway.protocol.errors import Conflict, InvalidField, UnknownEntity
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limit_raise import MAX_RAISES, LimitRaise, RaiseScope, live_raises
from gateway.tenancy.teams.limits import Limits, Measure
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import PutKey, PutTeam

ID_BYTES = 6
"""Number of random bytes in the id of a raise."""

router = APIRouter(prefix="/admin/v1", tags=["teams"])

_SUMMARY = (
    "The raise applies at once on all gateways that share the store, and ends by itself. The audit log records it."
)


class RaiseResponse(BaseModel):
    object: Literal["raise"]
    id: str
    scope: RaiseScope = Field(description="kind of the owner of the limit")
    name: str = Field(description="name of the owner of the limit; empty for requests that name no end user")
    model: str | None = Field(description="model to whose limit the raise applies; null for all models together")
    measure: Measure
    amount: float = Field(description="amount of the limit while the raise lasts")
    until: str = Field(description="end of the raise, RFC 3339 in UTC")
    reason: str
    created_at: str = Field(description="beginning of the raise, RFC 3339 in UTC")
    created_by: str = Field(description="ID of the admin key that gave the raise")


@router.get(
    "/teams/{name}/raises",
    summary="List the temporary raises of limits of a team that have not ended",
    response_model=Listed[RaiseResponse],
    dependencies=[Depends(needs("viewer"))],
)
async def list_team_raises(name: str, parts: PartsOfApp) -> Response:
    return _listing(parts, await parts.entities.team(name))


@router.get(
    "/keys/{key_id}/raises",
    summary="List the temporary raises of limits of a key that have not ended",
    response_model=Listed[RaiseResponse],
    dependencies=[Depends(needs("viewer"))],
)
async def list_key_raises(key_id: str, parts: PartsOfApp) -> Response:
    return _listing(parts, await parts.entities.key(key_id))


@router.post(
    "/teams/{name}/raises",
    summary="Raise a limit of a team, or of one of its end users, sessions or projects, for some time",
    description=_SUMMARY,
    status_code=201,
    response_model=RaiseResponse,
    openapi_extra=takes(TeamRaiseBody),
    dependencies=[Depends(needs("operator"))],
)
async def raise_team_limit(
    name: str, who: Who, parts: PartsOfApp, wanted: Annotated[TeamRaiseBody, Depends(body(TeamRaiseBody))]
) -> Response:
    made = _made(parts, who, wanted, *_owner(name, wanted))

    async def give() -> None:
        team = await parts.entities.team(name, to_change=True)
        _check(_limits_of_team(parts.entities.directory.teams[name], made), made)
        await _put_team(parts, who, team, _with(parts, team.raises, made))

    await retried(give)
    return JSONResponse(_response(made), 201)


@router.post(
    "/keys/{key_id}/raises",
    summary="Raise a limit of a key for some time",
    description=_SUMMARY,
    status_code=201,
    response_model=RaiseResponse,
    openapi_extra=takes(RaiseBody),
    dependencies=[Depends(needs("operator"))],
)
async def raise_key_limit(
    key_id: str, who: Who, parts: PartsOfApp, wanted: Annotated[RaiseBody, Depends(body(RaiseBody))]
) -> Response:
    made = _made(parts, who, wanted, "key", key_id)

    async def give() -> None:
        key = await parts.entities.key(key_id, to_change=True)
        effective = parts.entities.directory.keys[key_id]
        _check(effective.limits if made.model is None else effective.model_limits.get(made.model), made)
        await _put_key(parts, who, key, _with(parts, key.raises, made))

    await retried(give)
    return JSONResponse(_response(made), 201)


@router.delete(
    "/teams/{name}/raises/{raise_id}",
    summary="End a temporary raise of a limit of a team",
    status_code=204,
    dependencies=[Depends(needs("operator"))],
)
async def end_team_raise(name: str, raise_id: str, who: Who, parts: PartsOfApp) -> Response:
    async def end() -> None:
        team = await parts.entities.team(name, to_change=True)
        await _put_team(parts, who, team, _without(parts, team.raises, raise_id))

    await retried(end)
    return Response(status_code=204)


@router.delete(
    "/keys/{key_id}/raises/{raise_id}",
    summary="End a temporary raise of a limit of a key",
    status_code=204,
    dependencies=[Depends(needs("operator"))],
)
async def end_key_raise(key_id: str, raise_id: str, who: Who, parts: PartsOfApp) -> Response:
    async def end() -> None:
        key = await parts.entities.key(key_id, to_change=True)
        await _put_key(parts, who, key, _without(parts, key.raises, raise_id))

    await retried(end)
    return Response(status_code=204)


def _owner(team: str, wanted: TeamRaiseBody) -> tuple[RaiseScope, str]:
    """Return the scope and the name of the owner of the limit to raise.

    Raises:
        InvalidField: if the body names more than one owner.
    """
    named: list[tuple[RaiseScope, str | None]] = [
        ("user", wanted.user),
        ("session", wanted.session),
        ("project", wanted.project),
    ]
    found = [(scope, name) for scope, name in named if name is not None]
    if len(found) > 1:
        raise InvalidField(f"'{found[1][0]}' cannot be combined with '{found[0][0]}'.", param=found[1][0])
    if found and wanted.model is not None:
        raise InvalidField(f"'model' cannot be combined with '{found[0][0]}'.", param="model")
    return found[0] if found else ("team", team)


def _made(parts: Parts, who: AdminKey, wanted: RaiseBody, scope: RaiseScope, name: str) -> LimitRaise:
    now = parts.wall_clock()
    return LimitRaise(
        id=f"r{secrets.token_hex(ID_BYTES)}",
        scope=scope,
        name=name,
        measure=wanted.measure,
        amount=wanted.amount,
        until=now + wanted.for_s,
        reason=wanted.reason,
        model=wanted.model,
        created_at=now,
        created_by=who.id,
    )


def _limits_of_team(team: Team, made: LimitRaise) -> Limits | None:
    if made.scope == "user":
        return team.user_limits
    if made.scope == "session":
        return team.session_limits
    if made.scope == "project":
        return team.project_limits.get(made.name)
    return team.limits if made.model is None else team.model_limits.get(made.model)


def _check(limits: Limits | None, made: LimitRaise) -> None:
    """Check that *made* raises an existing limit.

    Raises:
        InvalidField: if there is no such limit, or if it is already as high.
    """
    amount = None if limits is None else getattr(limits, made.measure)
    if amount is None:
        raise InvalidField(f"There is no limit {made.measure!r} to raise.", param="measure")
    if made.amount <= amount:
        raise InvalidField(f"'amount' must be above the limit, which is {amount:g}.", param="amount")


def _with(parts: Parts, former: tuple[LimitRaise, ...], made: LimitRaise) -> tuple[LimitRaise, ...]:
    """Return *former* with *made* and without raises that have ended.

    Raises:
        Conflict: if there are too many raises.
    """
    live = live_raises(former, parts.wall_clock())
    if len(live) >= MAX_RAISES:
        raise Conflict(f"{MAX_RAISES} raises have not ended yet. End one of them first.")
    return (*live, made)


def _without(parts: Parts, former: tuple[LimitRaise, ...], raise_id: str) -> tuple[LimitRaise, ...]:
    live = live_raises(former, parts.wall_clock())
    left = tuple(each for each in live if each.id != raise_id)
    if len(left) == len(live):
        raise UnknownEntity(f"There is no raise {raise_id[:100]!r}")
    return left


async def _put_team(parts: Parts, who: AdminKey, team: Team, raises: tuple[LimitRaise, ...]) -> None:
    entry = parts.audit(
        *(who, "update", "team", team.name),
        team=team.name,
        before=_shown(parts, team.raises),
        after=_shown(parts, raises),
    )
    await parts.entities.write(PutTeam(structs.replace(team, raises=raises), former=team), entry)


async def _put_key(parts: Parts, who: AdminKey, key: Key, raises: tuple[LimitRaise, ...]) -> None:
    entry = parts.audit(
        *(who, "update", "key", key.id), team=key.team, before=_shown(parts, key.raises), after=_shown(parts, raises)
    )
    is_team_declared = parts.entities.directory.is_declared_team(key.team)
    change = PutKey(structs.replace(key, raises=raises), former=key, is_team_declared=is_team_declared)
    await parts.entities.write(change, entry)


def _shown(parts: Parts, raises: tuple[LimitRaise, ...]) -> Json:
    """Return *raises* in the form that the audit log shows."""
    return {"raises": [_response(each) for each in live_raises(raises, parts.wall_clock())]}


def _listing(parts: Parts, owner: Team | Key) -> Response:
    live = live_raises(owner.raises, parts.wall_clock())
    return JSONResponse(listing([_response(each) for each in live], None))


def _response(each: LimitRaise) -> Json:
    return {
        "object": "raise",
        "id": each.id,
        "scope": each.scope,
        "name": each.name,
        "model": each.model,
        "measure": each.measure,
        "amount": each.amount,
        "until": rfc3339(each.until),
        "reason": each.reason,
        "created_at": rfc3339(each.created_at),
        "created_by": each.created_by,
    }
