from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from simulator.schema_values import SchemaUnsupported, value_for


class Color(Enum):
    RED = "red"
    GREEN = "green"


class Point(BaseModel):
    x: Annotated[int, Field(ge=-5, lt=5)]
    y: Annotated[float, Field(gt=0, lt=1)]


class Everything(BaseModel):
    name: Annotated[str, Field(min_length=3, max_length=12)]
    code: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    color: Color
    unit: Literal["C", "F"]
    points: Annotated[list[Point], Field(min_length=2, max_length=3)]
    pair: tuple[int, str]
    tags: set[Color]
    even: Annotated[int, Field(multiple_of=2, ge=1)]
    note: str | None = None
    either: int | list[str] | Point
    scores: dict[str, int] = {}
    is_new: bool


class Node(BaseModel):
    value: int
    next: "Node | None" = None
    children: list["Node"]


@pytest.mark.parametrize("richness", [0, 1, 2])
@pytest.mark.parametrize("model", [Everything, Node, Point, Color])
def test_a_value_fits_the_schema_of_a_type(model: Any, richness: int) -> None:
    """Pydantic accepts what was made from its own schema."""
    adapter = TypeAdapter(model)
    for seed in range(20):
        adapter.validate_python(value_for(adapter.json_schema(), seed=b"%d" % seed, richness=richness))


def test_a_value_depends_on_the_seed_and_on_nothing_else() -> None:
    """The same seed makes the same value; twenty seeds make several."""
    schema = TypeAdapter(Point).json_schema()
    made = [value_for(schema, seed=b"%d" % seed) for seed in range(20)]

    assert made == [value_for(schema, seed=b"%d" % seed) for seed in range(20)]
    assert len({str(value) for value in made}) > 5


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": {"a": 1}}, {"a": 1}),
        ({"enum": [None]}, None),
        ({"type": ["null"]}, None),
        ({"type": "object"}, {}),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": 5}}}, 5),
        ({"allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"type": "object"}]}, {"a": 1}),
        ({"oneOf": [False, {"const": 2}]}, 2),
        ({"type": "string", "minLength": 2, "maxLength": 2, "pattern": "^9|ee$|0{2}"}, "00"),
        ({"type": "string", "format": "date"}, "2024-05-17"),
        ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5}, 4),
        ({"type": "integer", "maximum": -7, "minimum": -7}, -7),
        ({"type": "number", "minimum": 1.5, "maximum": 1.5}, 1.5),
        ({"items": {"const": 1}, "minItems": 1, "maxItems": 1}, [1]),
        ({"type": "array", "items": False}, []),
        ({"prefixItems": [{"const": 1}], "items": False}, [1]),
        ({"type": "object", "required": ["a"], "additionalProperties": {"const": 3}}, {"a": 3}),
    ],
)
def test_keywords_that_leave_one_value(schema: Any, value: Any) -> None:
    """It is the one that is made."""
    assert value == value_for(schema, seed=b"a")


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"anyOf": [False]},
        {"$ref": "#/$defs/none"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#"},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "string", "pattern": "^unlikely words 99$"},
        {"type": "string", "pattern": "("},
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "integer", "multipleOf": 0.5, "minimum": 0.1, "maximum": 0.2},
        {"type": "array", "minItems": 10**9},
        {"type": "array", "items": {"const": 1}, "minItems": 2, "uniqueItems": True},
        {"type": "object", "required": 5},
        {"anyOf": 5},
    ],
)
def test_schemas_that_nothing_is_made_for(schema: Any) -> None:
    """They are refused with one kind of error, in bounded time."""
    with pytest.raises(SchemaUnsupported):
        value_for(schema, seed=b"a")
