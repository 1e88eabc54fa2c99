from typing import Annotated, Literal

import pytest
from pydantic import Field, SecretStr

from gateway.protocol.field_names import Place
from gateway.settings.fields import annotation_at, bare, entry_of, fields_of, groups_of, is_optional, is_text, type_name
from gateway.settings.models import ModelSettings, WorkerSettings
from gateway.settings.server import ServerSettings


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (("server",), ServerSettings),
        (("server", "port"), int),
        (("models", 7), ModelSettings),
        (("models", 0, "workers", 1), WorkerSettings),
        (("models", "first"), None),
        (("server", 0), None),
        (("server", "port", "x"), None),
        (("nothing", "there"), None),
    ],
)
def test_every_place_has_its_type(place: Place, expected: object) -> None:
    """An entry of a list has the same at every number; where there is no setting there is no type."""
    assert expected is annotation_at(place)


def test_a_type_is_bare_without_its_rules() -> None:
    assert bare(Annotated[int, Field(ge=1)] | None) is int
    assert is_optional(int | None)
    assert not is_optional(int)


def test_groups_and_lists_are_reported_from_values() -> None:
    """Only a group has fields, only a list has entries."""
    assert (ServerSettings,) == groups_of(ServerSettings | None)
    assert () == groups_of(int)
    assert "port" in (fields_of(ServerSettings) or {})
    assert fields_of(int) is None
    assert entry_of(tuple[int, ...]) is int
    assert entry_of(int) is None


def test_text_secrets_and_choices_are_text() -> None:
    """They take a variable as it stands."""
    assert [True, True, True, False] == [is_text(each) for each in (str, SecretStr | None, Literal["a", "b"], int)]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (bool, "true or false"),
        (float | None, "number or null"),
        (SecretStr, "secret text"),
        (Literal["a", "b"], "a or b"),
        (tuple[Annotated[str, Field()], ...], "list of text"),
        (ServerSettings, "mapping"),
    ],
)
def test_every_type_has_a_name(annotation: object, expected: str) -> None:
    """In words of a reader who knows YAML."""
    assert expected == type_name(annotation)
