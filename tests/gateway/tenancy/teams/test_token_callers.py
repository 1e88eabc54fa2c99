import pytest

from gateway.tenancy.teams.token_callers import is_token


@pytest.mark.parametrize(
    ("secret", "is_one"),
    [
        ("eyJhbGciOiJFUzI1NiJ9.eyJ9.c2ln", True),
        ("eyJhbGciOiJFUzI1NiJ9..", True),
        ("eyJhbGciOiJFUzI1NiJ9.eyJ9", False),
        ("eyJhbGciOiJFUzI1NiJ9.a.b.c.d", False),
        ("wg-ci-a.b.c", False),
        ("", False),
    ],
)
def test_a_token_begins_with_an_object_and_has_three_parts(secret: str, is_one: bool) -> None:
    assert is_one is is_token(secret)
