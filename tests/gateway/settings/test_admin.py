"""Facts about who may use the admin routes, and where they are."""

import pytest

from tests.gateway.settings.examples import SMALLEST, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "admin: {keys: [{role: root, secret: x}]}",
            "admin.keys[0].role is 'root'; allowed are 'viewer', 'operator' or 'owner'.",
        ),
        (
            "admin: {keys: [{role: owner, secret: x}, {role: owner, secret: y}]}",
            "admin.keys[1].id is 'owner', which is already used by admin.keys[0].id.",
        ),
        (
            "admin: {keys: [{role: owner}]}",
            "admin.keys[0].secret is required. Set secret or secret_env.",
        ),
        (
            "admin: {keys: [{role: operator, team: blue, secret: x}]}",
            "admin.keys[0].team needs the role viewer or owner, but the role is 'operator'. "
            "Change the role, or remove team.",
        ),
    ],
)
def test_what_is_wrong_is_reported_by_its_place(text: str, expected: str) -> None:
    assert [expected] == sentences(f"{SMALLEST}\n{text}")
