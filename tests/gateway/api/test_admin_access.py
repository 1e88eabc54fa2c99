"""Facts about who may use /admin/v1."""

import pytest

from gateway.api.admin_access import AdminAccess, AdminKey, Role
from gateway.protocol.errors import AdminClosed, AdminKeyRefused, Forbidden

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
