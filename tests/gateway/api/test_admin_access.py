"""Facts about who may use /admin/v1."""

from contextlib import suppress

import pytest

from gateway.api.admin_access import AdminAccess, AdminKey, Role
from gateway.protocol.errors import AdminClosed, AdminKeyRefused, Forbidden, InvalidKey
from gateway.tenancy.identity.admin_person import AdminPerson
from gateway.tenancy.identity.role_rule import RoleGrant

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
def test_without_admin_keys_no_one_may(authorization: str | None) -> None:
    with pytest.raises(AdminClosed, match=r"set admin.keys to enable it"):
        AdminAccess([]).check(authorization, None)


@pytest.mark.parametrize(
    ("role", "allowed"),
    [("viewer", ["viewer"]), ("operator", ["viewer", "operator"]), ("owner", ["viewer", "operator", "owner"])],
)
def test_a_role_may_what_lower_ones_may(role: Role, allowed: list[Role]) -> None:
    key = AdminKey("x", role, "s")
    roles: list[Role] = ["viewer", "operator", "owner"]

    assert allowed == [each for each in roles if key.may(each)]


def test_who_may_not_is_reported_the_role_that_is_needed() -> None:
    with pytest.raises(
        Forbidden, match=r"Draining needs the role 'operator'; .* 'bob' has the role 'viewer'"
    ) as caught:
        BOB.require("operator", "Draining")

    assert (403, "role_not_sufficient") == (caught.value.status, caught.value.code)


def test_a_secret_is_not_shown() -> None:
    assert "AdminKey(id='ann', role='owner', team=None)" == repr(ANN)


class Tokens:
    """A check that accepts one token."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[str] = []

    async def verify(self, token: str) -> AdminPerson:
        self.asked.append(token)
        if self.error is not None:
            raise self.error
        return AdminPerson("okta", "alice", RoleGrant("viewer", "blue"), 1.0, 0.0)


TOKEN = "eyJhbGciOiJSUzI1NiJ9.e30.c2ln"


async def test_a_token_with_a_role_counts_as_a_key_with_the_token_as_its_secret() -> None:
    access = AdminAccess([ANN], Tokens())
    person = await access.identify(f"Bearer {TOKEN}", None)

    assert AdminKey("oidc:okta:alice", "viewer", TOKEN, "blue", is_person=True) == person
    assert TOKEN not in repr(person)
    assert await access.identify("Bearer s-1", None) is ANN


@pytest.mark.parametrize(
    ("authorization", "api_key"),
    [
        (f"Bearer {TOKEN}", "s-1"),
        (f"Basic {TOKEN}", None),
        (None, TOKEN),
        ("Bearer eyJ.x", None),
        ("Bearer a.b.c", None),
        ("Bearer ", None),
        (None, None),
    ],
)
async def test_what_is_not_one_token_is_compared_with_the_keys(authorization: str | None, api_key: str | None) -> None:
    tokens = Tokens()
    with suppress(AdminKeyRefused):
        assert await AdminAccess([ANN], tokens).identify(authorization, api_key) is ANN

    assert [] == tokens.asked


async def test_a_token_that_is_not_valid_is_refused_as_a_wrong_key_is() -> None:
    with pytest.raises(AdminKeyRefused, match=r"^The token has expired\.?$") as refused:
        await AdminAccess([ANN], Tokens(InvalidKey("The token has expired"))).identify(f"Bearer {TOKEN}", None)

    assert (401, "invalid_admin_key") == (refused.value.status, refused.value.code)


async def test_without_admin_keys_a_token_opens_nothing() -> None:
    with pytest.raises(AdminClosed):
        await AdminAccess([], Tokens()).identify(f"Bearer {TOKEN}", None)


@pytest.mark.parametrize("secret", ["", " "])
async def test_an_empty_secret_opens_nothing(secret: str) -> None:
    with pytest.raises(AdminKeyRefused):
        await AdminAccess([ANN, AdminKey("oidc:okta:alice", "owner", "")]).identify(f"Bearer {secret}", secret)
