"""Filters of SCIM; `test_application.py` has a table of them."""

from typing import Any

import pytest

from gateway.api.scim.faults import ScimFault
from gateway.api.scim.filters import path_of, predicate, tokens, values_at

EXTENSION = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
ALICE: dict[str, Any] = {
    "userName": "Alice",
    "active": True,
    "age": 7,
    "emails": [{"type": "work", "value": "a@b.c"}, {"type": "home", "value": "d@e.f"}],
    EXTENSION: {"department": "Research"},
}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('username EQ "ALICE"', True),
        ('userName eq "Al" or active eq true and age gt 6', True),
        ('(userName eq "Al" or active eq true) and age gt 7', False),
        ("not (age le 6)", True),
        ("age lt 8 and age ge 7", True),
        ('emails[type eq "home" and value sw "d"]', True),
        ('emails[type eq "work" and value sw "d"]', False),
        ('emails co "@e."', True),
        ('emails.type eq "home"', True),
        (f'{EXTENSION}:department eq "research"', True),
        ("title pr", False),
        ("emails pr", True),
        ('age eq "7"', False),
        ("active gt true", False),
        ("title eq null", False),
    ],
)
def test_a_filter_selects(said: str, expected: bool) -> None:
    assert expected == predicate(said)(ALICE)


def test_a_text_can_contain_quotes_and_brackets() -> None:
    assert predicate('userName eq "a \\"[b]\\" (c)"')({"userName": 'A "[B]" (C)'})


def test_the_nesting_is_bounded() -> None:
    assert predicate("(" * 8 + "active pr" + ")" * 8)(ALICE)
    with pytest.raises(ScimFault, match="nested too deeply"):
        predicate("(" * 9 + "active pr" + ")" * 9)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("name.givenName", ("name", "givenName")),
        ("urn:ietf:params:scim:schemas:core:2.0:User:name.givenName", ("name", "givenName")),
        (f"{EXTENSION}:manager.value", (EXTENSION, "manager", "value")),
    ],
)
def test_a_path_names_attributes(said: str, expected: tuple[str, ...]) -> None:
    assert expected == path_of(said)


@pytest.mark.parametrize("said", ["", "a b", "1a", "a.b.c", "a.", "__class__ "])
def test_other_texts_are_no_paths(said: str) -> None:
    with pytest.raises(ScimFault) as refused:
        path_of(said)

    assert "invalidPath" == refused.value.kind


def test_values_are_found_in_lists() -> None:
    assert ["a@b.c", "d@e.f"] == values_at(ALICE, ("EMAILS", "Value"))
    assert [] == values_at(ALICE, ("userName", "value"))


def test_tokens_of_a_path_with_a_filter() -> None:
    assert ["emails", "[", "type", "eq", '"work"', "]", ".value"] == tokens('emails[type eq "work"].value')
