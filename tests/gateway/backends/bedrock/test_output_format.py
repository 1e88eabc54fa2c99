import json
from typing import Any

import pytest

from gateway.backends.bedrock.output_format import OutputFormat, read_output_format
from gateway.protocol.errors import InvalidField

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, None),
        ({"response_format": None}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, OutputFormat("response_format")),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "w", "description": "Weather.", "schema": SCHEMA, "strict": True},
                }
            },
            OutputFormat("response_format", schema=SCHEMA, name="w", description="Weather."),
        ),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, OutputFormat("response_format")),
        ({"guided_json": SCHEMA}, OutputFormat("guided_json", schema=SCHEMA)),
        ({"guided_json": json.dumps(SCHEMA)}, OutputFormat("guided_json", schema=SCHEMA)),
        ({"structured_outputs": {"json": SCHEMA, "regex": None}}, OutputFormat("structured_outputs", schema=SCHEMA)),
        ({"structured_outputs": {"json_object": True}}, OutputFormat("structured_outputs")),
    ],
)
def test_a_format_is_read(fields: dict[str, Any], asked: OutputFormat | None) -> None:
    """In OpenAI's form, and in both of vLLM's."""
    assert asked == read_output_format(fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": "json"},
        {"response_format": {"type": "structural_tag", "structures": []}},
        {"response_format": {"type": "json_schema"}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": "x"}}},
        {"structured_outputs": {"regex": "a+"}},
        {"structured_outputs": {"json": SCHEMA, "choice": ["a"]}},
        {"structured_outputs": {}},
        {"structured_outputs": "x"},
        {"guided_json": "{"},
        {"guided_json": 7},
    ],
)
def test_what_has_no_equal_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as caught:
        read_output_format(fields)

    assert next(iter(fields)) == caught.value.param


def test_a_schema_is_enforced_by_a_grammar() -> None:
    """Converse wants it as a string of JSON."""
    config = OutputFormat("response_format", schema=SCHEMA, name="w", description="Weather.").output_config() or {}
    definition = config["textFormat"]["structure"]["jsonSchema"]

    assert "json_schema" == config["textFormat"]["type"]
    assert ("w", "Weather.") == (definition["name"], definition["description"])
    assert SCHEMA | {"additionalProperties": False} == json.loads(definition["schema"])


def test_a_name_that_bedrock_might_not_take_is_left_out() -> None:
    config = OutputFormat("response_format", schema=SCHEMA, name="a b", description=" ").output_config() or {}

    assert {"schema"} == config["textFormat"]["structure"]["jsonSchema"].keys()


@pytest.mark.parametrize("schema", [None, {"type": "array"}, {"type": "object"}])
def test_not_every_schema_has_a_grammar(schema: dict[str, Any] | None) -> None:
    assert OutputFormat("response_format", schema=schema).output_config() is None


def test_a_schema_is_the_input_of_a_tool() -> None:
    expected = {"name": "t", "description": "Takes the answer.", "inputSchema": {"json": SCHEMA}}

    assert {"toolSpec": expected} == OutputFormat("response_format", schema=SCHEMA).tool("t")


@pytest.mark.parametrize("schema", [None, {"type": "array"}, {"$ref": "#/$defs/A"}])
def test_what_is_no_certain_object_is_no_tools_input(schema: dict[str, Any] | None) -> None:
    assert OutputFormat("response_format", schema=schema).tool("t") is None


def test_a_schema_can_be_said_in_words() -> None:
    assert OutputFormat("response_format", schema={"type": "array"}).words().endswith('\n{"type":"array"}')
    assert "one JSON object" in OutputFormat("response_format").words()
