from typing import Any

import pytest

from gateway.tenancy.identity.claims import MOST_VALUES, values_at

CLAIMS: dict[str, Any] = {
    "sub": "alice",
    "groups": ["a", "b"],
    "realm_access": {"roles": ["admin", 7, None, ["x"]]},
    "https://example.com/team": "blue",
    "a.b": "by its name",
    "a": {"b": "by its path"},
    "number": 7,
    "flag": True,
    "object": {"x": 1},
    "nothing": None,
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("sub", ("alice",)),
        ("groups", ("a", "b")),
        ("realm_access.roles", ("admin",)),
        ("https://example.com/team", ("blue",)),
        ("a.b", ("by its name",)),
        ("number", ()),
        ("flag", ()),
        ("object", ()),
        ("nothing", ()),
        ("absent", ()),
        ("sub.deeper", ()),
        ("object.x.y", ()),
        ("", ()),
    ],
)
def test_a_claim_is_found_by_its_name_or_by_its_path(path: str, values: tuple[str, ...]) -> None:
    assert values == values_at(CLAIMS, path)


def test_a_long_list_is_cut() -> None:
    assert 1000 == MOST_VALUES == len(values_at({"groups": ["x"] * 5000}, "groups"))
