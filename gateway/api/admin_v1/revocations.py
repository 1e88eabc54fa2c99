"""`/admin/v1/revocations`: tokens of identity providers that are no longer accepted, on all gateways with the store."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_access import Who, needs
from gateway.api.admin_v1.bodies import RevocationBody
from gateway.api.admin_v1.json_body import body, takes
from gateway.api.admin_v1.paging import Listed, PageQuery, listing, page_of
from gateway.api.admin_v1.parts import GatewayOfApp, PartsOfApp
from gateway.api.times import rfc3339
from gateway.protocol.errors import InvalidField, UnknownEntity
from gateway.tenancy.teams.access_records import Revocation, RevokedScope, revocation_of_id
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.team_store import PutAccess

router = APIRouter(prefix="/admin/v1/revocations", tags=["tokens"])

Json = dict[str, Any]


class RevocationResponse(BaseModel):
    object: Literal["revocation"]
    id: str
    issuer: str
    scope: RevokedScope
    value: str
    reason: str
    revoked_at: str
    expires_at: str = Field(description="time after which the revocation has no effect")


@router.get(
    "",
    summary="List the revocations that have not expired",
    response_model=Listed[RevocationResponse],
    dependencies=[Depends(needs("viewer"))],
)
async def list_revocations(parts: PartsOfApp, page: Annotated[PageQuery, Query()]) -> Response:
    now = parts.wall_clock()
    found = _revocations(await parts.entities.look())
    valid = {each.id: each for each in sorted(found, key=lambda each: each.id) if now < each.expires_at}
    shown, after = page_of(valid, page)
    return JSONResponse(listing([_response(each) for each in shown], after))


@router.post(
    "",
    summary="Revoke a token, a session, or all tokens of a person so far, on all gateways that share the store",
    description="The next request with a revoked token gets status 401 on each gateway, within a second after this "
    "answer. The revocation of a subject concerns tokens that were issued until now, so the person can sign in again "
    "after the accepted difference of the clocks (leeway_s of the issuer). Revoking twice renews the revocation.",
    status_code=201,
    response_model=RevocationResponse,
    openapi_extra=takes(RevocationBody),
    dependencies=[Depends(needs("operator"))],
)
async def revoke(
    who: Who,
    parts: PartsOfApp,
    gateway: GatewayOfApp,
    wanted: Annotated[RevocationBody, Depends(body(RevocationBody))],
) -> Response:
    if wanted.issuer not in gateway.issuers:
        raise InvalidField("'issuer' must be the name of an issuer in identity.issuers.", param="issuer")
    now = parts.wall_clock()
    made = Revocation(wanted.issuer, wanted.scope, wanted.value, now, now + wanted.keep_s, wanted.reason)
    ended = (each for each in _revocations(await parts.entities.look()) if each.expires_at <= now)
    entry = parts.audit(who, "create", "revocation", made.id, after=_response(made))
    await parts.entities.write(PutAccess({**dict.fromkeys(each.name for each in ended), made.name: made}), entry)
    return JSONResponse(_response(made), status_code=201)


@router.delete(
    "/{identifier}",
    summary="Accept revoked tokens again, until they expire",
    status_code=204,
    dependencies=[Depends(needs("owner"))],
)
async def forgive(identifier: str, who: Who, parts: PartsOfApp) -> Response:
    found = (await parts.entities.look()).access.get(revocation_of_id(identifier))
    if not isinstance(found, Revocation):
        raise UnknownEntity(f"There is no revocation {identifier[:100]!r}")
    entry = parts.audit(who, "delete", "revocation", found.id, before=_response(found))
    await parts.entities.write(PutAccess({found.name: None}, {found.name: found}), entry)
    return Response(status_code=204)


def _revocations(directory: Directory) -> list[Revocation]:
    return [each for each in directory.access.values() if isinstance(each, Revocation)]


def _response(revocation: Revocation) -> Json:
    return {
        "object": "revocation",
        "id": revocation.id,
        "issuer": revocation.issuer,
        "scope": revocation.scope,
        "value": revocation.value,
        "reason": revocation.reason,
        "revoked_at": rfc3339(revocation.revoked_at),
        "expires_at": rfc3339(revocation.expires_at),
    }
