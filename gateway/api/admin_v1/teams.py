"""`/admin/v1/teams`: create, list, change and delete teams."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from msgspec import structs

from gateway.api.admin_access import AdminKey, Who, needs
from gateway.api.admin_v1 import paging
from gateway.api.admin_v1.bodies import OPERATOR_FIELDS, TeamBody, TeamPut, TeamState
from gateway.api.admin_v1.claims import IdempotencyKey, claim_of
from gateway.api.admin_v1.entities import retried
from gateway.api.admin_v1.etag import IfMatch, check_match, tagged
from gateway.api.admin_v1.json_body import body, parsed, patch_body, patched, takes
from gateway.api.admin_v1.paging import Listed, PageQuery, listing, page_of
from gateway.api.admin_v1.parts import Parts, PartsOfApp
from gateway.api.admin_v1.repetition import REPLAYED, made_once
from gateway.api.admin_v1.response_models import Json, TeamResponse, team_of, team_response, team_state
from gateway.protocol.errors import Conflict, InvalidField
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import DeleteTeam, PutTeam

router = APIRouter(prefix="/admin/v1/teams", tags=["teams"])


class Deletion(paging.Query):
    cascade: bool = False


@router.get(
    "", summary="List all teams by name", response_model=Listed[TeamResponse], dependencies=[Depends(needs("viewer"))]
)
async def list_teams(who: Who, parts: PartsOfApp, page: Annotated[PageQuery, Query()]) -> Response:
    directory = await parts.entities.look()
    teams, after = page_of({name: team for name, team in directory.written_teams.items() if who.sees(name)}, page)
    shown = [team_response(team, declared=directory.is_declared_team(team.name)) for team in teams]
    return JSONResponse(listing(shown, after))


@router.get("/{name}", summary="Return one team", response_model=TeamResponse, dependencies=[Depends(needs("viewer"))])
async def read_team(name: str, who: Who, parts: PartsOfApp) -> Response:
    who.team_within(name)
    team = await parts.entities.team(name)
    is_declared = parts.entities.directory.is_declared_team(name)
    return JSONResponse(team_response(team, declared=is_declared), headers=tagged(team))


@router.post(
    "",
    summary="Create a team",
    description="A request repeated with the same `idempotency-key` within 24 hours creates nothing and returns the "
    "same team.",
    status_code=201,
    response_model=TeamResponse,
    openapi_extra=takes(TeamBody),
    dependencies=[Depends(needs("owner"))],
)
async def make_team(
    who: Who,
    parts: PartsOfApp,
    wanted: Annotated[TeamBody, Depends(body(TeamBody))],
    idempotency_key: IdempotencyKey = None,
) -> Response:
    async def exists(name: str) -> bool:
        return name in (await parts.entities.look()).teams

    async def make(name: str, _seed: str = "") -> None:
        if await exists(name):
            raise Conflict(f"A team {name!r} already exists", param="name")
        await _put(parts, who, team, None)

    team = team_of(wanted.name, wanted)
    claim = claim_of(idempotency_key, admin=who.id, route="teams", body=wanted, makes=team.name)
    if claim is None:
        await make(team.name)
    elif (await made_once(claim, parts.claims, exists=exists, make=make)).repeats:
        team = await parts.entities.team(team.name)
        return JSONResponse(team_response(team, declared=False), 201, REPLAYED | tagged(team))
    return JSONResponse(team_response(team, declared=False), 201, tagged(team))


@router.put(
    "/{name}",
    summary="Create or replace a team",
    response_model=TeamResponse,
    responses={201: {"model": TeamResponse, "description": "The team was created"}},
    openapi_extra=takes(TeamPut, required=False),
    dependencies=[Depends(needs("owner"))],
)
async def put_team(
    name: str,
    who: Who,
    parts: PartsOfApp,
    wanted: Annotated[TeamPut, Depends(body(TeamPut))],
    if_match: IfMatch = None,
) -> Response:
    if wanted.name not in (None, name):
        raise InvalidField("'name' must match the path or be omitted.", param="name")
    named = parsed(TeamBody, wanted.model_copy(update={"name": name}).model_dump_json().encode())
    team = team_of(named.name, named)

    async def put() -> bool:
        directory = await parts.entities.look()
        former = await parts.entities.team(name, to_change=True) if name in directory.teams else None
        check_match(if_match, former)
        raises = () if former is None else former.raises
        await _put(parts, who, structs.replace(team, raises=raises), former)
        return former is None

    is_new = await retried(put)
    return JSONResponse(team_response(team, declared=False), 201 if is_new else 200, tagged(team))


@router.patch(
    "/{name}",
    summary="Change some fields of a team",
    description="The body is a JSON merge patch (RFC 7396), in which null restores a default. Operators can change "
    f"{', '.join(sorted(OPERATOR_FIELDS))}. Owners can change all fields.",
    response_model=TeamResponse,
    openapi_extra=takes(TeamState, required=False),
    dependencies=[Depends(needs("operator"))],
)
async def change_team(
    name: str,
    who: Who,
    parts: PartsOfApp,
    patch: Annotated[Json, Depends(patch_body(TeamState))],
    if_match: IfMatch = None,
) -> Response:
    if not OPERATOR_FIELDS.issuperset(patch):
        who.require("owner", f"Changing {', '.join(sorted(patch.keys() - OPERATOR_FIELDS))}")

    async def change() -> Team:
        former = await parts.entities.team(name, to_change=True)
        check_match(if_match, former)
        team = structs.replace(team_of(name, patched(TeamState, team_state(former), patch)), raises=former.raises)
        await _put(parts, who, team, former)
        return team

    team = await retried(change)
    return JSONResponse(team_response(team, declared=False), headers=tagged(team))


@router.delete(
    "/{name}",
    summary="Delete a team; the ledger keeps the records of the team",
    description="A team that has keys can be deleted only with `cascade=true`, which also deletes its keys.",
    status_code=204,
    dependencies=[Depends(needs("owner"))],
)
async def delete_team(
    name: str, who: Who, parts: PartsOfApp, how: Annotated[Deletion, Query()], if_match: IfMatch = None
) -> Response:
    async def delete() -> None:
        team = await parts.entities.team(name, to_change=True)
        check_match(if_match, team)
        keys = [key.id for key in parts.entities.directory.keys.values() if key.team == name]
        entry = parts.audit(who, "delete", "team", name, team=name, before=_shown(team) | {"keys": keys})
        former = None if if_match is None else team
        await parts.entities.write(DeleteTeam(name, with_keys=how.cascade, former=former), entry)

    await (delete() if if_match is None else retried(delete))
    return Response(status_code=204)


async def _put(parts: Parts, who: AdminKey, team: Team, former: Team | None) -> None:
    """Replace the team *former* in the store with *team*, unless they are equal."""
    if team == former:
        return
    parts.check_models(team, former)
    parts.check_named_rules(team, former)
    parts.check_guardrails(team, former)
    entry = parts.audit(
        who,
        "create" if former is None else "update",
        "team",
        team.name,
        team=team.name,
        before=None if former is None else _shown(former),
        after=_shown(team),
    )
    await parts.entities.write(PutTeam(team, former=former), entry)


def _shown(team: Team) -> Json:
    return {"name": team.name, **team_state(team)}
