from typing import Any

import pytest

from gateway.backends.bedrock.schema import grammar_schema, tool_schema
from gateway.protocol.errors import InvalidField


@pytest.mark.parametrize(
    ("parameters", "schema"),
    [
        (None, {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": ["object", "null"]}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
        ({"anyOf": [{}]}, {"type": "object", "properties": {}}),
        ({"type": None}, {"type": "object", "properties": {}}),
        ({"type": "null"}, {"type": "object", "properties": {}}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "object", "properties": {}}),
        (
            {"properties": {"a": {"type": None, "enum": [None]}, "b": {"items": {"type": None}}}},
            {"type": "object", "properties": {"a": {"enum": [None]}, "b": {"items": {}}}},
        ),
        (
            {
                "anyOf": [
                    {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
                    {"$ref": "#/$defs/ByName"},
                    {"type": "null"},
                ],
                "$defs": {"ByName": {"properties": {"name": {}, "id": {"type": "integer"}}, "required": ["name"]}},
            },
            {
                "type": "object",
                "properties": {"id": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "name": {}},
                "description": "Needs one of these groups of properties: id | name.",
                "$defs": {"ByName": {"properties": {"name": {}, "id": {"type": "integer"}}, "required": ["name"]}},
            },
        ),
        (
            {
                "type": "object",
                "description": "Either.",
                "properties": {"a": {}, "b": {}, "c": {}},
                "required": ["c"],
                "oneOf": [{"required": ["a", "c"]}, {"required": ["b", "c"]}],
            },
            {
                "type": "object",
                "description": "Either. Needs one of these groups of properties: a, c | b, c.",
                "properties": {"a": {}, "b": {}, "c": {}},
                "required": ["c"],
            },
        ),
        (
            {"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]},
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"maximum": 3}}},
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"maximum": 3}}},
        ),
    ],
)
def test_the_input_of_a_tool_is_an_object(parameters: object, schema: dict[str, Any]) -> None:
    """Whatever the caller leaves out; the rest stays as it is."""
    assert schema == tool_schema(parameters, "x")


@pytest.mark.parametrize("parameters", ["x", [], {"type": "string"}, {"type": ["array", "null"]}, {"type": 7}])
def test_other_input_is_refused(parameters: object) -> None:
    with pytest.raises(InvalidField):
        tool_schema(parameters, "tools[0].function.parameters")


def test_objects_of_a_grammar_are_closed() -> None:
    """At every depth, as OpenAI's strict mode has it."""
    inner = {"type": "object", "properties": {"b": {"type": "string"}}}
    closed = inner | {"additionalProperties": False}

    assert {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "a": closed,
            "c": {"type": "array", "items": closed},
            "d": {"anyOf": [closed, {"type": "null"}]},
            "e": {"$ref": "#/$defs/E"},
        },
        "required": ["a"],
        "$defs": {"E": closed},
    } == grammar_schema(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "a": inner,
                "c": {"type": "array", "items": inner},
                "d": {"oneOf": [inner, {"type": "null"}]},
                "e": {"$ref": "#/$defs/E"},
            },
            "required": ["a"],
            "$defs": {"E": inner},
        }
    )


def test_what_a_grammar_cannot_hold_is_said_in_words() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 9, "description": "A digit."},
            "l": {"type": "array", "items": {"type": "string", "pattern": "^a"}, "minItems": 1, "maxItems": 3},
        },
    }

    assert {
        "n": {"type": "integer", "description": "A digit. (minimum: 1, maximum: 9)"},
        "l": {
            "type": "array",
            "items": {"type": "string", "description": 'pattern: "^a"'},
            "minItems": 1,
            "description": "maxItems: 3",
        },
    } == (grammar_schema(schema) or {})["properties"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {}},
        {"$ref": "#/$defs/A", "$defs": {}},
        {},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"type": ["object", "null"]}}},
        {"type": "object", "properties": {"a": {"type": "object", "patternProperties": {}}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"not": {}}}},
        {"type": "object", "properties": {"a": {"anyOf": [{}], "oneOf": [{}]}}},
        {"type": "object", "properties": 7},
        {"type": "object", "properties": {"a": {"anyOf": 7}}},
    ],
)
def test_an_open_object_has_no_grammar(schema: dict[str, Any]) -> None:
    """Closed it would say something else; nor has what no grammar follows."""
    assert grammar_schema(schema) is None


def test_an_object_without_fields_has_a_grammar_if_it_says_so() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}

    assert schema == grammar_schema(schema)


def test_the_callers_schema_is_not_changed() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    grammar_schema(schema)
    tool_schema(schema, "x")

    assert {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}} == schema
