"""`/admin/v1/keys`."""

import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from gateway.api.admin_v1.access import AdminKey, Who, needs
from gateway.api.admin_v1.bodies import OPERATOR_FIELDS, KeyBody, KeyState, RotationBody
from gateway.api.admin_v1.cards import Json, KeyCard, NewKeyCard, key_card, key_of, key_state
from gateway.api.admin_v1.claims import HEADER, claim_of
from gateway.api.admin_v1.entities import retried, unknown_team
from gateway.api.admin_v1.json_body import body, patch_body, patched, takes
from gateway.api.admin_v1.paging import Listed, Page, listing, page_of
from gateway.api.admin_v1.parts import Parts, PartsOfApp
from gateway.api.admin_v1.repetition import made_once
from gateway.errors import Conflict, InvalidField
from gateway.ledger.audit import Action
from gateway.teams.key import Key
from gateway.teams.rotation import rotated
from gateway.teams.secret import new_secret
from gateway.teams.team_store import DeleteKey, PutKey

ID_BYTES = 6
"""Of an id that nobody chose: 48 bits; should it be there already, the request is answered 409."""

NO_STORE = {"cache-control": "no-store"}
"""On answers that hold a secret."""

router = APIRouter(prefix="/admin/v1/keys", tags=["keys"])


class KeysPage(Page):
    team: str | None = Field(default=None, description="only its keys")


@router.get("", summary="The keys, by id", response_model=Listed[KeyCard], dependencies=[Depends(needs("viewer"))])
async def list_keys(parts: PartsOfApp, page: Annotated[KeysPage, Query()]) -> Response:
    directory = await parts.entities.look()
    keys = directory.keys
    if page.team is not None:
        keys = {key.id: key for key in keys.values() if key.team == page.team}
    told, after = page_of(keys, page)
    return JSONResponse(listing([_card(parts, key) for key in told], after))


@router.get("/{key_id}", summary="One key", response_model=KeyCard, dependencies=[Depends(needs("viewer"))])
async def read_key(key_id: str, parts: PartsOfApp) -> Response:
    return JSONResponse(_card(parts, await parts.entities.key(key_id)))


@router.post(
    "",
    summary="Make a key; its secret is shown this once",
    description="Repeated with the same `idempotency-key` within 24 hours, it makes no second key, and is answered 409 "
    "with the id of the first: its secret is not kept, so it cannot be shown again. Rotate the key to get another.",
    status_code=201,
    response_model=NewKeyCard,
    openapi_extra=takes(KeyBody),
    dependencies=[Depends(needs("owner"))],
)
async def make_key(
    who: Who,
    parts: PartsOfApp,
    wanted: Annotated[KeyBody, Depends(body(KeyBody))],
    idempotency_key: Annotated[str | None, Header(alias=HEADER)] = None,
) -> Response:
    now = parts.wall_clock()
    if wanted.expires_at is not None and wanted.expires_at.timestamp() <= now:
        raise InvalidField("'expires_at' is over already.", param="expires_at")
    key_id = wanted.id or f"k{secrets.token_hex(ID_BYTES)}"
    claim = claim_of(idempotency_key, admin=who.id, route="keys", body=wanted, makes=key_id)
    digester = await parts.digester()
    made: list[tuple[Key, str]] = []

    async def exists(name: str) -> bool:
        return name in (await parts.entities.look()).keys

    async def make(name: str) -> None:
        secret = new_secret(name)
        key = key_of(Key(id=name, team=wanted.team, digest=digester.digest(secret), created_at=now), wanted)
        await _make(parts, who, key)
        made.append((key, secret))

    if claim is None:
        await make(key_id)
    elif (done := await made_once(claim, parts.claims, exists=exists, make=make)).repeats:
        text = f"The key {done.name!r} was made when this request came first, and its secret was shown then. "
        raise Conflict(f"{text}It is not kept: for another one, POST /admin/v1/keys/{done.name}/rotate", param=HEADER)
    ((key, secret),) = made
    return JSONResponse(_card(parts, key) | {"secret": secret}, 201, NO_STORE)


@router.patch(
    "/{key_id}",
    summary="Change some of what is said of a key",
    description="A JSON merge patch, RFC 7396: null brings a default back. Operators change "
    f"{', '.join(sorted(OPERATOR_FIELDS))}; owners all, but for its id and team.",
    response_model=KeyCard,
    openapi_extra=takes(KeyState, required=False),
    dependencies=[Depends(needs("operator"))],
)
async def change_key(
    key_id: str, who: Who, parts: PartsOfApp, patch: Annotated[Json, Depends(patch_body(KeyState))]
) -> Response:
    if not OPERATOR_FIELDS.issuperset(patch):
        who.require("owner", f"Changing {', '.join(sorted(patch.keys() - OPERATOR_FIELDS))}")

    async def change() -> Key:
        former = await parts.entities.key(key_id, to_change=True)
        key = key_of(former, patched(KeyState, key_state(former), patch))
        if key != former:
            await _replace(parts, who, "update", key, former)
        return key

    return JSONResponse(_card(parts, await retried(change)))


@router.post(
    "/{key_id}/rotate",
    summary="Give a key another secret, which is shown this once",
    response_model=NewKeyCard,
    openapi_extra=takes(RotationBody, required=False),
    dependencies=[Depends(needs("operator"))],
)
async def rotate_key(
    key_id: str, who: Who, parts: PartsOfApp, how: Annotated[RotationBody, Depends(body(RotationBody))]
) -> Response:
    digester = await parts.digester()
    secret = new_secret(key_id)

    async def rotate() -> Key:
        former = await parts.entities.key(key_id, to_change=True)
        key = rotated(former, digester.digest(secret), how.grace_s, parts.wall_clock())
        await _replace(parts, who, "rotate", key, former)
        return key

    return JSONResponse(_card(parts, await retried(rotate)) | {"secret": secret}, headers=NO_STORE)


@router.delete(
    "/{key_id}",
    summary="Delete a key: every gateway refuses it within a second",
    status_code=204,
    dependencies=[Depends(needs("owner"))],
)
async def delete_key(key_id: str, who: Who, parts: PartsOfApp) -> Response:
    key = await parts.entities.key(key_id, to_change=True)
    entry = parts.audit(who, "delete", "key", key_id, team=key.team, before=_shown(parts, key))
    await parts.entities.write(DeleteKey(key_id), entry)
    return Response(status_code=204)


async def _make(parts: Parts, who: AdminKey, key: Key) -> None:
    """Write *key*, which is new.

    Raises:
        UnknownEntity: there is no such team.
        Conflict: there is such a key.
    """
    parts.check_models(key)
    directory = await parts.entities.look()
    if key.team not in directory.teams:
        raise unknown_team(key.team, param="team")
    if key.id in directory.keys:
        raise Conflict(f"There is a key {key.id!r} already", param="id")
    change = PutKey(key, is_team_declared=directory.is_declared_team(key.team))
    await parts.entities.write(
        change, parts.audit(who, "create", "key", key.id, team=key.team, after=_shown(parts, key))
    )


async def _replace(parts: Parts, who: AdminKey, action: Action, key: Key, former: Key) -> None:
    parts.check_models(key, former)
    is_team_declared = parts.entities.directory.is_declared_team(key.team)
    entry = parts.audit(
        who, action, "key", key.id, team=key.team, before=_shown(parts, former), after=_shown(parts, key)
    )
    await parts.entities.write(PutKey(key, former=former, is_team_declared=is_team_declared), entry)


def _card(parts: Parts, key: Key) -> Json:
    is_declared = parts.entities.directory.is_declared_key(key.id)
    return key_card(key, declared=is_declared, now=parts.wall_clock())


def _shown(parts: Parts, key: Key) -> Json:
    """For the audit log."""
    card = _card(parts, key)
    return {name: card[name] for name in card if name not in ("object", "declared", "expired")}
