"""Who may use /admin/v1."""

import pytest

from gateway.api.admin_v1.access import AdminAccess, AdminKey, Role, admin_keys
from gateway.errors import AdminClosed, AdminKeyRefused, Forbidden
from gateway.settings import build
from tests.gateway.api.admin_v1.administration import Administration, administration, fault, message

ANN, BOB = AdminKey("ann", "owner", "s-1"), AdminKey("bob", "viewer", "s-2")
ACCESS = AdminAccess([ANN, BOB])


@pytest.mark.parametrize(
    ("authorization", "api_key", "who"),
    [
        ("Bearer s-1", None, ANN),
        ("bearer  s-2 ", None, BOB),
        (None, "s-2", BOB),
        ("", " s-1 ", ANN),
        ("Bearer s-1", "s-1", ANN),
        ("Basic x", "s-1", ANN),
    ],
)
def test_a_key_may_come_in_either_header(authorization: str | None, api_key: str | None, who: AdminKey) -> None:
    assert who == ACCESS.check(authorization, api_key)


@pytest.mark.parametrize(
    ("authorization", "api_key"),
    [
        (None, None),
        ("", ""),
        ("Bearer", None),
        ("s-1", None),
        ("Basic s-1", None),
        ("Bearer s-3", None),
        ("Bearer s-1x", None),
        ("Bearer s-", None),
        ("Bearer s\xe9", None),
        ("Bearer s-1", "s-2"),
        ("Bearer s-1", "x"),
        ("Bearer ann", None),
    ],
)
def test_everything_else_is_refused(authorization: str | None, api_key: str | None) -> None:
    """Two keys as well: whose change would it be?"""
    with pytest.raises(AdminKeyRefused) as refused:
        ACCESS.check(authorization, api_key)

    assert (401, "invalid_admin_key") == (refused.value.status, refused.value.code)
    assert "s-" not in refused.value.message


@pytest.mark.parametrize("authorization", [None, "Bearer ", "Bearer s-1"])
def test_without_admin_keys_nobody_may(authorization: str | None) -> None:
    with pytest.raises(AdminClosed, match=r"set admin.keys to open them"):
        AdminAccess([]).check(authorization, None)


@pytest.mark.parametrize(
    ("role", "allowed"),
    [("viewer", ["viewer"]), ("operator", ["viewer", "operator"]), ("owner", ["viewer", "operator", "owner"])],
)
def test_a_role_may_what_lower_ones_may(role: Role, allowed: list[Role]) -> None:
    key = AdminKey("x", role, "s")
    roles: list[Role] = ["viewer", "operator", "owner"]

    assert allowed == [each for each in roles if key.may(each)]


def test_who_may_not_is_told_the_role_that_is_needed() -> None:
    with pytest.raises(
        Forbidden, match=r"Draining needs the role 'operator'; .* 'bob' has the role 'viewer'"
    ) as caught:
        BOB.require("operator", "Draining")

    assert (403, "role_not_sufficient") == (caught.value.status, caught.value.code)


def test_a_secret_is_not_shown() -> None:
    assert "AdminKey(id='ann', role='owner')" == repr(ANN)


def test_the_keys_are_those_of_the_settings() -> None:
    """The id of one that has none is its role."""
    keys = [{"role": "owner", "secret": "s-1"}, {"id": "grafana", "role": "viewer", "secret": "s-2"}]
    settings = build({"models": [{"name": "m", "workers": [{"url": "http://a"}]}], "admin": {"keys": keys}}, {})

    assert (AdminKey("owner", "owner", "s-1"), AdminKey("grafana", "viewer", "s-2")) == admin_keys(settings.admin)


# ---- every route

READS = ["/teams", "/teams/x", "/keys", "/keys/x", "/usage", "/usage/users?team=x", "/usage/records", "/usage/export"]
ROUTES = [
    *(("GET", path, "viewer") for path in [*READS, "/audit"]),
    ("POST", "/teams", "owner"),
    ("PUT", "/teams/x", "owner"),
    ("PATCH", "/teams/x", "operator"),
    ("DELETE", "/teams/x", "owner"),
    ("POST", "/keys", "owner"),
    ("PATCH", "/keys/x", "operator"),
    ("POST", "/keys/x/rotate", "owner"),
    ("DELETE", "/keys/x", "owner"),
]


@pytest.mark.parametrize(("method", "path", "role"), ROUTES)
async def test_nobody_without_a_key(admin: Administration, method: str, path: str, role: str) -> None:
    """Before the body is looked at, and whether or not there is what the path names."""
    async with admin.client(None) as client:
        response = await client.request(method, f"/admin/v1{path}", content=b"{")

    assert (401, "invalid_admin_key", None) == fault(response)
    assert "Bearer" == response.headers["www-authenticate"]


@pytest.mark.parametrize(("method", "path", "role"), [route for route in ROUTES if route[2] != "viewer"])
async def test_nobody_with_a_lower_role(admin: Administration, method: str, path: str, role: str) -> None:
    """Told before the body is looked at, with the role that is needed."""
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
    tried = {
        (method, f"/admin/v1{path.partition('?')[0]}".replace("/teams/x", "/teams/{name}").replace("/x", "/{key_id}"))
        for method, path, _ in ROUTES
    }

    assert described == tried


async def test_without_admin_keys_every_route_is_closed() -> None:
    async with administration(keys=()) as admin:
        response = await admin.ask("GET", "/teams")

    assert (403, "admin_closed", None) == fault(response)
