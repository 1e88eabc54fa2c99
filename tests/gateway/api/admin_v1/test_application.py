"""The application as a whole."""

import re
from typing import Any

import pytest

from gateway.api.admin_v1.application import PREFIX
from gateway.api.admin_v1.parts import AdminGateway
from gateway.api.admin_v1.redis_claims import RedisClaims
from gateway.app.mapping.surroundings import configured_models
from gateway.settings import build
from gateway.storage.redis_link import redis_link
from gateway.tenancy.ledger.redis_usage import RedisUsage
from gateway.tenancy.teams.redis_teams import RedisTeamStore
from tests.gateway.api.admin_v1.administration import Administration, administration, fault, message
from tests.gateway.examples import a_draining, the_models
from tests.storage import PATIENCE_S, RedisServer

OF_A_GATEWAY = {f"{PREFIX}/{path}" for path in ("workers", "workers/drain", "workers/undrain", "models", "reload")}


async def test_without_a_gateway_its_routes_are_not_there(admin: Administration) -> None:
    for path in ("/workers", "/models"):
        assert (404, "unknown_url", None) == fault(await admin.ask("GET", path))
    assert set() == OF_A_GATEWAY & admin.api.openapi()["paths"].keys()


async def test_with_a_gateway_they_are() -> None:
    settings = build({"models": [{"name": "tiny", "workers": [{"url": "http://a"}]}]}, {})
    models = the_models()
    gateway = AdminGateway(models, lambda: configured_models(settings), draining=a_draining(models))
    async with administration(gateway=gateway) as admin:
        assert {"workers": []} == await admin.get("/workers")
        assert OF_A_GATEWAY <= admin.api.openapi()["paths"].keys()


async def test_every_path_begins_with_the_prefix(admin: Administration) -> None:
    assert [] == [path for path in admin.api.openapi()["paths"] if not path.startswith(f"{PREFIX}/")]


async def test_nothing_else_is_served(admin: Administration) -> None:
    """No page with scripts from elsewhere, which FastAPI would bring."""
    async with admin.client() as client:
        answers = [await client.get(path) for path in ("/docs", "/redoc", "/openapi.json", "/")]

    assert [404] * 4 == [answer.status_code for answer in answers]


@pytest.mark.redis
async def test_over_redis_everything_is_answered_as_over_sqlite(redis_server: RedisServer) -> None:
    """Field by field, but for what is made by chance."""
    asked: list[tuple[str, str, dict[str, Any] | None]] = [
        ("POST", "/teams", {"name": "blue", "limits": {"concurrent": 3}}),
        ("POST", "/teams", {"name": "blue", "limits": {"concurrent": 3}}),
        ("POST", "/teams", {"name": "blue", "limits": {"concurrent": 4}}),
        ("POST", "/keys", {"team": "blue", "id": "ci"}),
        ("POST", "/keys", {"team": "red"}),
        ("PATCH", "/keys/ci", {"limits": {"usd_per_day": 0.5}, "blocked": True}),
        ("POST", "/keys/ci/rotate", {"grace_s": 60}),
        ("GET", "/keys", None),
        ("DELETE", "/teams/blue", None),
        ("DELETE", "/keys/ci", None),
        ("DELETE", "/keys/ci", None),
        ("DELETE", "/teams/blue", None),
        ("GET", "/teams", None),
        ("GET", "/usage?group_by=team", None),
        ("GET", "/usage/users?team=blue", None),
        ("GET", "/usage/records", None),
        ("GET", "/usage/export", None),
        ("GET", "/audit", None),
        ("GET", "/audit?after=x", None),
        ("GET", "/usage/records?after=x", None),
    ]

    async def answers(admin: Administration) -> list[tuple[int, str]]:
        shown = [await admin.ask(*question, idempotency_key="k-1") for question in asked]
        return [(each.status_code, re.sub(r"wg-ci-[\w-]{43}", "SECRET", each.text)) for each in shown]

    async with administration() as embedded:
        expected = await answers(embedded)
    link = redis_link(redis_server.url, timeout_s=PATIENCE_S)
    stores = RedisTeamStore(link), RedisUsage(link), RedisClaims(link)
    async with administration(stores=stores) as shared:
        found = await answers(shared)
    await link.aclose()

    assert expected == found
    assert [201, 201, 409, 201, 409, 200] == [status for status, _ in found[:6]]


# ---- every route

READS = ["/teams", "/teams/x", "/keys", "/keys/x", "/usage", "/usage/users?team=x", "/usage/records", "/usage/export"]
ROUTES = [
    *(("GET", path, "viewer") for path in [*READS, "/audit", "/teams/x/raises", "/keys/x/raises"]),
    ("POST", "/teams", "owner"),
    ("PUT", "/teams/x", "owner"),
    ("PATCH", "/teams/x", "operator"),
    ("DELETE", "/teams/x", "owner"),
    ("POST", "/keys", "owner"),
    ("PATCH", "/keys/x", "operator"),
    ("POST", "/keys/x/rotate", "owner"),
    ("DELETE", "/keys/x", "owner"),
    *(("POST", f"/{kind}/x/raises", "operator") for kind in ("teams", "keys")),
    *(("DELETE", f"/{kind}/x/raises/y", "operator") for kind in ("teams", "keys")),
]


@pytest.mark.parametrize(("method", "path", "role"), ROUTES)
async def test_no_one_without_a_key(admin: Administration, method: str, path: str, role: str) -> None:
    """Before the body is looked at, and whether or not there is what the path names."""
    async with admin.client(None) as client:
        response = await client.request(method, f"/admin/v1{path}", content=b"{")

    assert (401, "invalid_admin_key", None) == fault(response)
    assert "Bearer" == response.headers["www-authenticate"]


@pytest.mark.parametrize(("method", "path", "role"), [route for route in ROUTES if route[2] != "viewer"])
async def test_no_one_with_a_lower_role(admin: Administration, method: str, path: str, role: str) -> None:
    """Reported before the body is looked at, with the role that is needed."""
    lower = {"operator": ["vi"], "owner": ["vi", "op"]}[role]
    for who in lower:
        async with admin.client(who) as client:
            response = await client.request(method, f"/admin/v1{path}", content=b"{")

        assert (403, "role_not_sufficient", None) == fault(response)
        assert f"needs the role {role!r}" in message(response)


async def test_all_routes_are_tried_here(admin: Administration) -> None:
    """Those of a gateway have their own tests."""
    described = {
        (method.upper(), path) for path, operations in admin.api.openapi()["paths"].items() for method in operations
    }
    names = {"/teams/x": "/teams/{name}", "/x": "/{key_id}", "/raises/y": "/raises/{raise_id}"}

    def described_path(path: str) -> str:
        for tried_name, name in names.items():
            path = path.replace(tried_name, name)
        return f"/admin/v1{path.partition('?')[0]}"

    tried = {(method, described_path(path)) for method, path, _ in ROUTES}

    assert described == tried


async def test_without_admin_keys_every_route_is_closed() -> None:
    async with administration(keys=()) as admin:
        response = await admin.ask("GET", "/teams")

    assert (403, "admin_closed", None) == fault(response)
