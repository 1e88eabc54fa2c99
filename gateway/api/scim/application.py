"""SCIM 2.0 server under `/scim/v2` (RFC 7644), through which identity providers keep people and groups up to date.

Each issuer has its own token, and sees and changes only its own people and groups.
"""

import asyncio
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from gateway.api.admin_v1.entities import Entities
from gateway.api.refused_logins import RefusedLogins
from gateway.api.scim.directory import People
from gateway.api.scim.documents import CONFIGURATION, MAX_PAGE, SCHEMAS, TYPES
from gateway.api.scim.faults import ScimFault
from gateway.api.scim.filters import Predicate, predicate
from gateway.api.scim.patches import patched
from gateway.api.scim.resources import Json, attributes_of, group_json, user_json
from gateway.protocol.endpoints.endpoint import JSON
from gateway.protocol.errors import DECODE_ERRORS, GatewayError
from gateway.protocol.json_bounds import check_bounds
from gateway.proxy.bodies.receive import receive_body
from gateway.proxy.incoming import CallerGone, Incoming
from gateway.tenancy.teams.access_records import ProvisionedGroup, ProvisionedUser
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.team_store import TeamStore

PREFIX: Final = "/scim/v2"
MEDIA: Final = "application/scim+json"
MAX_BYTES: Final = 1_048_576
MAX_VALUES: Final = 20_000
_LIST: Final = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
_BY_NAME = re.compile(r'\s*(userName|externalId|id|displayName)\s+eq\s+("(?:[^"\\]|\\.)*")\s*', re.IGNORECASE)
_STEP: Final = 500
"""Number of resources after which a search lets other requests run."""

Handler = Callable[["_Call"], Awaitable[Response]]


class _Call:
    """One request, with the people of the issuer that sends it."""

    def __init__(self, request: Request, people: People, base: str) -> None:
        self.request = request
        self.people = people
        self.base = base

    @property
    def id(self) -> str:
        identifier: str = self.request.path_params["identifier"]
        return identifier

    async def body(self) -> Json:
        """Return the body, which is an object.

        Raises:
            ScimFault: ``invalidSyntax`` if it is not.
            GatewayError: if the body is too long or has another type.
        """
        incoming = Incoming(self.request.scope, self.request.receive)
        raw = await receive_body(incoming, JSON, max_bytes=MAX_BYTES, method=self.request.method, setting=None)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, lambda: check_bounds(raw, max_values=MAX_VALUES, setting=None))
        try:
            return msgspec.json.decode(raw, type=dict[str, Any])
        except DECODE_ERRORS:
            raise ScimFault(400, "The body is not a JSON object.", "invalidSyntax") from None

    def user_json(self, user: ProvisionedUser) -> Json:
        return user_json(user, self.people.groups, self.base)

    def group_json(self, group: ProvisionedGroup, *, with_members: bool = True) -> Json:
        return group_json(group, self.people.members(group) if with_members else (), self.base)


class Scim:
    """Handlers of the routes. *issuers* maps tokens to names of issuers."""

    def __init__(
        self,
        issuers: Mapping[str, str],
        *,
        store: TeamStore,
        directory: Directory,
        refused_logins: RefusedLogins | None,
        wall_clock: Callable[[], float],
    ) -> None:
        self._issuers = [(_digest(secret), name) for secret, name in issuers.items()]
        self._entities = Entities(store, directory)
        self._refused_logins = refused_logins
        self._wall_clock = wall_clock

    def route(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint that identifies the issuer, runs *handler*, and answers errors in the shape of SCIM."""

        async def endpoint(request: Request) -> Response:
            try:
                people = People(self._issuer(request), self._entities, self._wall_clock)
                await people.read()
                return await handler(_Call(request, people, f"{str(request.base_url).rstrip('/')}{PREFIX}"))
            except ScimFault as fault:
                return _answer(fault.body(), fault.status)
            except CallerGone:
                return Response(status_code=400)
            except GatewayError as fault:
                retry = {"retry-after": "1"} if fault.status == 503 else {}
                return _answer(ScimFault(fault.status, f"{fault}.").body(), fault.status, retry)

        return endpoint

    def _issuer(self, request: Request) -> str:
        scheme, _, secret = request.headers.get("authorization", "").strip().partition(" ")
        given, found = _digest(secret.strip()), None
        for digest, name in self._issuers:  # to the end, so that the time does not show which one matched
            if hmac.compare_digest(given, digest):
                found = name
        if found is None or scheme.lower() != "bearer":
            if self._refused_logins is not None:
                self._refused_logins.count_request(request, "wrong key" if secret else "no key")
            raise ScimFault(401, "The request needs the token of an issuer: authorization: Bearer TOKEN.")
        return found


async def list_users(call: _Call) -> Response:
    users, wanted = call.people.users, call.request.query_params.get("filter")
    named = None if wanted is None else _BY_NAME.fullmatch(wanted)
    if named is not None:  # providers ask so before each change, so it does not build all resources
        users, wanted = [each for each in users if _is_named(each, named[1].lower(), named[2])], None
    return await _listed(call, users, call.user_json, wanted)


async def list_groups(call: _Call) -> Response:
    groups, wanted = list(call.people.groups.values()), call.request.query_params.get("filter")
    named = None if wanted is None else _BY_NAME.fullmatch(wanted)
    if named is not None:
        groups, wanted = [each for each in groups if _is_named(each, named[1].lower(), named[2])], None
    with_members = wanted is not None or "members" not in _names(call, "excludedAttributes")
    return await _listed(call, groups, lambda each: call.group_json(each, with_members=with_members), wanted)


async def read_user(call: _Call) -> Response:
    return _answer(_selected(call, call.user_json(call.people.user(call.id))))


async def read_group(call: _Call) -> Response:
    return _answer(_selected(call, call.group_json(call.people.group(call.id))))


async def add_user(call: _Call) -> Response:
    return _created(call.user_json(await call.people.add_user(await call.body())))


async def add_group(call: _Call) -> Response:
    return _created(call.group_json(await call.people.add_group(await call.body())))


async def replace_user(call: _Call) -> Response:
    body = await call.body()
    return _answer(call.user_json(await call.people.change_user(call.id, lambda _: body)))


async def replace_group(call: _Call) -> Response:
    body = await call.body()
    return _answer(call.group_json(await call.people.change_group(call.id, lambda _: body)))


async def patch_user(call: _Call) -> Response:
    operations = _operations(await call.body())
    made = await call.people.change_user(call.id, lambda former: patched(call.user_json(former), operations))
    return _answer(_selected(call, call.user_json(made)))


async def patch_group(call: _Call) -> Response:
    operations = _operations(await call.body())
    made = await call.people.change_group(call.id, lambda former: patched(call.group_json(former), operations))
    return _answer(_selected(call, call.group_json(made)))


async def delete_user(call: _Call) -> Response:
    await call.people.delete_user(call.id)
    return Response(status_code=204)


async def delete_group(call: _Call) -> Response:
    await call.people.delete_group(call.id)
    return Response(status_code=204)


async def read_configuration(_: _Call) -> Response:
    return _answer(CONFIGURATION)


async def list_schemas(_: _Call) -> Response:
    return _answer(_list(list(SCHEMAS.values()), len(SCHEMAS), 1))


async def read_schema(call: _Call) -> Response:
    return _answer(_document(SCHEMAS, call.id))


async def list_types(_: _Call) -> Response:
    return _answer(_list(list(TYPES.values()), len(TYPES), 1))


async def read_type(call: _Call) -> Response:
    return _answer(_document(TYPES, call.id))


async def unknown_route(call: _Call) -> Response:
    raise ScimFault(404, f"There is no route {call.request.url.path[:100]!r} with this method.")


ROUTES: Final[tuple[tuple[str, str, Handler], ...]] = (
    ("GET", "/Users", list_users),
    ("POST", "/Users", add_user),
    ("GET", "/Users/{identifier}", read_user),
    ("PUT", "/Users/{identifier}", replace_user),
    ("PATCH", "/Users/{identifier}", patch_user),
    ("DELETE", "/Users/{identifier}", delete_user),
    ("GET", "/Groups", list_groups),
    ("POST", "/Groups", add_group),
    ("GET", "/Groups/{identifier}", read_group),
    ("PUT", "/Groups/{identifier}", replace_group),
    ("PATCH", "/Groups/{identifier}", patch_group),
    ("DELETE", "/Groups/{identifier}", delete_group),
    ("GET", "/ServiceProviderConfig", read_configuration),
    ("GET", "/Schemas", list_schemas),
    ("GET", "/Schemas/{identifier}", read_schema),
    ("GET", "/ResourceTypes", list_types),
    ("GET", "/ResourceTypes/{identifier}", read_type),
)


def scim_api(
    issuers: Mapping[str, str],
    *,
    store: TeamStore,
    directory: Directory,
    refused_logins: RefusedLogins | None = None,
    wall_clock: Callable[[], float],
) -> FastAPI:
    """Return the application. *issuers* maps the token of each issuer to the name of the issuer."""
    scim = Scim(issuers, store=store, directory=directory, refused_logins=refused_logins, wall_clock=wall_clock)
    api = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    for method, path, handler in ROUTES:
        api.add_route(PREFIX + path, scim.route(handler), methods=[method])
    every = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    api.add_route(f"{PREFIX}/{{rest:path}}", scim.route(unknown_route), methods=every)
    return api


async def _listed(call: _Call, found: list[Any], shown: Callable[[Any], Json], wanted: str | None) -> Response:
    """Return a page of the resources *found* that match the filter *wanted*."""
    start = max(1, _number(call, "startIndex", 1))
    count = min(MAX_PAGE, max(0, _number(call, "count", MAX_PAGE // 2)))
    if wanted is not None:
        found = await _matching(found, shown, predicate(wanted))
    page = [_selected(call, shown(each)) for each in found[start - 1 : start - 1 + count]]
    return _answer(_list(page, len(found), start))


async def _matching(found: list[Any], shown: Callable[[Any], Json], matches: Predicate) -> list[Any]:
    matching = []
    for number, each in enumerate(found):
        if number % _STEP == _STEP - 1:
            await asyncio.sleep(0)
        if matches(shown(each)):
            matching.append(each)
    return matching


def _is_named(record: ProvisionedUser | ProvisionedGroup, attribute: str, quoted: str) -> bool:
    try:
        wanted = msgspec.json.decode(quoted.encode(), type=str)
    except DECODE_ERRORS:
        return False
    if attribute == "id":
        return record.id == wanted
    if attribute == "externalid":
        return record.external_id == wanted
    if isinstance(record, ProvisionedUser):
        said = record.user_name if attribute == "username" else attributes_of(record).get("displayName")
    else:
        said = record.display_name if attribute == "displayname" else None
    return isinstance(said, str) and said.casefold() == wanted.casefold()


def _operations(body: Json) -> Any:
    return next((value for name, value in body.items() if name.lower() == "operations"), None)


def _number(call: _Call, name: str, usual: int) -> int:
    said = call.request.query_params.get(name)
    if said is None:
        return usual
    if not re.fullmatch(r"-?[0-9]{1,9}", said):
        raise ScimFault(400, f"'{name}' must be a number.", "invalidValue")
    return int(said)


def _names(call: _Call, parameter: str) -> set[str]:
    return {each.strip().lower() for each in call.request.query_params.get(parameter, "").split(",") if each.strip()}


def _selected(call: _Call, resource: Json) -> Json:
    """Return the attributes of *resource* that the request asks for. The id and the schemas are always included."""
    wanted, unwanted = _names(call, "attributes"), _names(call, "excludedAttributes")
    tops = {each.split(".", 1)[0] for each in wanted}
    return {
        name: value
        for name, value in resource.items()
        if name in {"id", "schemas"} or ((not tops or name.lower() in tops) and name.lower() not in unwanted)
    }


def _document(documents: Mapping[str, Json], identifier: str) -> Json:
    if identifier not in documents:
        raise ScimFault(404, f"There is no document {identifier[:100]!r}.")
    return documents[identifier]


def _list(resources: list[Json], total: int, start: int) -> Json:
    return {
        "schemas": [_LIST],
        "totalResults": total,
        "startIndex": start,
        "itemsPerPage": len(resources),
        "Resources": resources,
    }


def _created(resource: Json) -> Response:
    return _answer(resource, 201, {"location": resource["meta"]["location"]})


def _answer(content: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(content, status, headers, media_type=MEDIA)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
