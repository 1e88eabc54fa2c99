"""`/admin/v1/keys`: create, list, change, rotate and delete API keys."""

import hashlib
import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from gateway.api.admin_access import AdminKey, Who, manages_keys, needs
from gateway.api.admin_v1.bodies import OPERATOR_FIELDS, KeyBody, KeyState, RotationBody
from gateway.api.admin_v1.claims import HEADER, IdempotencyKey, claim_of
from gateway.api.admin_v1.entities import Overtaken, retried, unknown_key, unknown_team
from gateway.api.admin_v1.etag import IfMatch, check_match, tagged
from gateway.api.admin_v1.json_body import body, patch_body, patched, takes
from gateway.api.admin_v1.paging import Listed, PageQuery, listing, page_of
from gateway.api.admin_v1.parts import Parts, PartsOfApp
from gateway.api.admin_v1.repetition import REPLAYED, kept_claim, made_once, new_seed, repeatable_secret
from gateway.api.admin_v1.response_models import Json, KeyResponse, NewKeyResponse, key_of, key_response, key_state
from gateway.protocol.errors import Conflict, Forbidden, InvalidField
from gateway.tenancy.ledger.audit import Action
from gateway.tenancy.teams.delegation import field_beyond_team
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.rotation import rotated
from gateway.tenancy.teams.secret import new_secret
from gateway.tenancy.teams.team_store import DeleteKey, PutKey

ID_BYTES = 6
"""Number of random bytes in a generated key ID. If the ID already exists, the request gets status 409."""

MAX_DELEGATED_KEYS = 1000
"""Number of keys of a team at which owners of the team can create no more keys."""

NO_STORE = {"cache-control": "no-store"}
"""Headers of responses that contain a secret, which must not be cached."""

router = APIRouter(prefix="/admin/v1/keys", tags=["keys"])


class KeysPage(PageQuery):
    team: str | None = Field(default=None, description="list only keys of this team")


@router.get(
    "", summary="List all keys by ID", response_model=Listed[KeyResponse], dependencies=[Depends(needs("viewer"))]
)
async def list_keys(who: Who, parts: PartsOfApp, page: Annotated[KeysPage, Query()]) -> Response:
    directory = await parts.entities.look()
    keys, team = directory.written_keys, who.team_within(page.team)
    if team is not None:
        keys = {key.id: key for key in keys.values() if key.team == team}
    found, after = page_of(keys, page)
    return JSONResponse(listing([_response(parts, key) for key in found], after))


@router.get("/{key_id}", summary="Return one key", response_model=KeyResponse, dependencies=[Depends(needs("viewer"))])
async def read_key(key_id: str, who: Who, parts: PartsOfApp) -> Response:
    key = await parts.entities.key(key_id)
    if not who.sees(key.team):
        raise unknown_key(key_id)
    return JSONResponse(_response(parts, key), headers=tagged(key))


@router.post(
    "",
    summary="Create a key; the secret of the key is shown only once",
    description="A request repeated with the same `idempotency-key` within 24 hours creates no second key and returns "
    "the same response with the same secret, which is derived, not stored, or 409 after a rotation of the key.",
    status_code=201,
    response_model=NewKeyResponse,
    openapi_extra=takes(KeyBody),
    dependencies=[Depends(manages_keys)],
)
async def make_key(
    who: Who,
    parts: PartsOfApp,
    wanted: Annotated[KeyBody, Depends(body(KeyBody))],
    idempotency_key: IdempotencyKey = None,
) -> Response:
    await _check_delegated(parts, who, wanted)
    now = parts.wall_clock()
    if wanted.expires_at is not None and wanted.expires_at.timestamp() <= now:
        raise InvalidField("'expires_at' must be in the future.", param="expires_at")
    key_id = wanted.id or f"k{secrets.token_hex(ID_BYTES)}"
    claim = claim_of(idempotency_key, admin=who.id, route="keys", body=wanted, makes=f"{key_id} {new_seed()}")
    digester = await parts.digester()

    async def exists(name: str) -> bool:
        return name in (await parts.entities.look()).keys

    def secret_of(name: str, seed: str) -> str:
        if idempotency_key is None or not seed:
            return new_secret(name)
        return repeatable_secret(name, seed=seed, header=idempotency_key, admin_secret=who.secret)

    async def make(name: str, seed: str) -> None:
        digest = digester.digest(secret_of(name, seed))
        await _make(parts, who, key_of(Key(id=name, team=wanted.team, digest=digest, created_at=now), wanted))

    if claim is None:
        secret = new_secret(key_id)
        key = key_of(Key(id=key_id, team=wanted.team, digest=digester.digest(secret), created_at=now), wanted)
        await _make(parts, who, key)
        return JSONResponse(_response(parts, key) | {"secret": secret}, 201, NO_STORE | tagged(key))
    done = await made_once(claim, parts.claims, exists=exists, make=make)
    key, secret = await parts.entities.key(done.name), secret_of(done.name, done.seed)
    if digester.digest(secret) != key.digest:
        text = f"The key {done.name!r} has been rotated since the first request with this idempotency-key. "
        raise Conflict(f"{text}For a new secret, send POST /admin/v1/keys/{done.name}/rotate", param=HEADER)
    return JSONResponse(_response(parts, key) | {"secret": secret}, 201, _headers(key, repeats=done.repeats))


@router.patch(
    "/{key_id}",
    summary="Change some fields of a key",
    description="The body is a JSON merge patch (RFC 7396), in which null restores a default. Operators can change "
    f"{', '.join(sorted(OPERATOR_FIELDS))}. Owners can change all fields except id and team.",
    response_model=KeyResponse,
    openapi_extra=takes(KeyState, required=False),
    dependencies=[Depends(needs("operator"))],
)
async def change_key(
    key_id: str,
    who: Who,
    parts: PartsOfApp,
    patch: Annotated[Json, Depends(patch_body(KeyState))],
    if_match: IfMatch = None,
) -> Response:
    if not OPERATOR_FIELDS.issuperset(patch):
        who.require("owner", f"Changing {', '.join(sorted(patch.keys() - OPERATOR_FIELDS))}")

    async def change() -> Key:
        former = await parts.entities.key(key_id, to_change=True)
        check_match(if_match, former)
        key = key_of(former, patched(KeyState, key_state(former), patch))
        if key != former:
            await _replace(parts, who, "update", key, former)
        return key

    key = await retried(change)
    return JSONResponse(_response(parts, key), headers=tagged(key))


@router.post(
    "/{key_id}/rotate",
    summary="Rotate a key: create a new secret, which is shown only once",
    description="Grace periods of earlier rotations continue unless `end_graces` is set. A request repeated "
    "with the same `idempotency-key` within 24 hours changes nothing and returns the same response, or 409 after "
    "another request has rotated the key.",
    response_model=NewKeyResponse,
    openapi_extra=takes(RotationBody, required=False),
    dependencies=[Depends(manages_keys)],
)
async def rotate_key(
    key_id: str,
    who: Who,
    parts: PartsOfApp,
    how: Annotated[RotationBody, Depends(body(RotationBody))],
    *,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
) -> Response:
    digester = await parts.digester()
    first = await _managed(parts, who, key_id)
    secret, began = await _secret_to_come(parts, who, first, how, idempotency_key)
    digest = digester.digest(secret)

    async def rotate() -> tuple[Key, bool]:
        former = await _managed(parts, who, key_id)
        if former.digest == digest:
            return former, True
        check_match(if_match, former)
        if began is not None and began != _fingerprint(former):
            raise Overtaken(f"Another request has rotated the key {key_id!r} since this request was first sent")
        key = rotated(former, digest, how.grace_s, parts.wall_clock(), end_graces=how.end_graces)
        await _replace(parts, who, "rotate", key, former)
        return key, False

    key, repeats = await retried(rotate)
    return JSONResponse(_response(parts, key) | {"secret": secret}, headers=_headers(key, repeats=repeats))


@router.delete(
    "/{key_id}",
    summary="Delete a key; all gateways reject it within a second",
    status_code=204,
    dependencies=[Depends(manages_keys)],
)
async def delete_key(key_id: str, who: Who, parts: PartsOfApp, if_match: IfMatch = None) -> Response:
    async def delete() -> None:
        key = await _managed(parts, who, key_id)
        check_match(if_match, key)
        entry = parts.audit(who, "delete", "key", key_id, team=key.team, before=_shown(parts, key))
        await parts.entities.write(DeleteKey(key_id, former=None if if_match is None else key), entry)

    await (delete() if if_match is None else retried(delete))
    return Response(status_code=204)


async def _managed(parts: Parts, who: AdminKey, key_id: str) -> Key:
    """Return the key *key_id*, which is to be changed. Keys of other teams do not exist for an owner of a team.

    Raises:
        UnknownEntity, Conflict, StoreUnavailable: under the conditions of `Entities.key`.
    """
    if not who.sees((await parts.entities.key(key_id)).team):
        raise unknown_key(key_id)
    return await parts.entities.key(key_id, to_change=True)


async def _check_delegated(parts: Parts, who: AdminKey, wanted: KeyBody) -> None:
    """Check that an owner of a team grants a new key no more than the team has.

    Ids are generated, so that an owner of a team cannot find out or occupy the ids of other teams.

    Raises:
        Forbidden: if the key belongs to another team, or would have more than the team.
        InvalidField: if the request names an id.
        UnknownEntity, StoreUnavailable: under the conditions of `Entities.team`.
    """
    if who.team is None:
        return
    who.team_within(wanted.team)
    if wanted.id is not None:
        raise InvalidField("'id' must be null: an owner of a team gets generated ids.", param="id")
    team = await parts.entities.team(wanted.team)
    key = key_of(Key(id="", team=team.name, digest=""), wanted)
    rules = parts.entities.directory.rules
    field = field_beyond_team(rules.applied_to(key), rules.applied_to(team))
    if field is not None:
        text = f"{field!r} would give the key more than its team {team.name!r} has"
        raise Forbidden(text, code="beyond_team", param=field)
    keys = sum(each.team == team.name for each in parts.entities.directory.keys.values())
    if keys >= MAX_DELEGATED_KEYS:
        text = f"The team {team.name!r} has {keys} keys, and its owners can create at most {MAX_DELEGATED_KEYS}"
        raise Forbidden(text, code="beyond_team", param="team")


async def _secret_to_come(
    parts: Parts, who: AdminKey, key: Key, how: RotationBody, header: str | None
) -> tuple[str, str | None]:
    """Return the new secret for a rotation of *key*, and the fingerprint that the key must have before the rotation.

    The fingerprint is None if any state is acceptable. A repeated request gets both values of the first request.

    Raises:
        Conflict, InvalidField, StoreUnavailable: under the conditions of `claim_of` and `kept_claim`.
    """
    seed = f"{key.id} {new_seed()} {_fingerprint(key)}"
    claim = claim_of(header, admin=who.id, route=f"keys/{key.id}/rotate", body=how, makes=seed)
    if claim is None or header is None:
        return new_secret(key.id), None
    _, seed, began = (await kept_claim(claim, parts.claims)).made.split(" ")
    return repeatable_secret(key.id, seed=seed, header=header, admin_secret=who.secret), began


def _fingerprint(key: Key) -> str:
    """Return a fingerprint of *key* that changes with each rotation."""
    return hashlib.sha256(key.digest.encode()).hexdigest()[:16]


async def _make(parts: Parts, who: AdminKey, key: Key) -> None:
    """Save the new *key* in the store.

    Raises:
        UnknownEntity: if the team does not exist.
        Conflict: if the key already exists.
    """
    parts.check_models(key)
    parts.check_named_rules(key)
    directory = await parts.entities.look()
    if key.team not in directory.teams:
        raise unknown_team(key.team, param="team")
    if key.id in directory.keys:
        raise Conflict(f"A key {key.id!r} already exists", param="id")
    change = PutKey(key, is_team_declared=directory.is_declared_team(key.team))
    await parts.entities.write(
        change, parts.audit(who, "create", "key", key.id, team=key.team, after=_shown(parts, key))
    )


async def _replace(parts: Parts, who: AdminKey, action: Action, key: Key, former: Key) -> None:
    parts.check_models(key, former)
    parts.check_named_rules(key, former)
    is_team_declared = parts.entities.directory.is_declared_team(key.team)
    entry = parts.audit(
        who, action, "key", key.id, team=key.team, before=_shown(parts, former), after=_shown(parts, key)
    )
    await parts.entities.write(PutKey(key, former=former, is_team_declared=is_team_declared), entry)


def _headers(key: Key, *, repeats: bool) -> dict[str, str]:
    """Return the headers of a response that contains the secret of an API key."""
    return NO_STORE | tagged(key) | (REPLAYED if repeats else {})


def _response(parts: Parts, key: Key) -> Json:
    is_declared = parts.entities.directory.is_declared_key(key.id)
    return key_response(key, declared=is_declared, now=parts.wall_clock())


def _shown(parts: Parts, key: Key) -> Json:
    """Return the API key in the form that the audit log shows."""
    each = _response(parts, key)
    return {name: each[name] for name in each if name not in ("object", "declared", "expired")}
