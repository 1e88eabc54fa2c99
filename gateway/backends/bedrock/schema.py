"""JSON schemas as Bedrock's models and their grammars take them.

A tool's schema only has to be an object's. A schema that is enforced (``outputConfig``, ``strict``) becomes a grammar,
which knows a part of JSON Schema only: objects are closed, and bounds, lengths and patterns are said in words.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.errors import InvalidField

Schema = dict[str, Any]

# What a grammar follows. The rest either says nothing about the shape (`_SAID`, `_LEFT_OUT`), or cannot be enforced.
_KEPT = {"type", "enum", "const", "$ref", "title", "description", "required", "format"}
_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "allOf", "oneOf")
_SAID = {
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "default",
    "examples",
}
_LEFT_OUT = {"$schema", "$id", "$comment", "additionalProperties", "deprecated", "readOnly", "writeOnly", "strict"}


class _Unenforceable(Exception):
    """The schema asks for what no grammar says."""


def tool_schema(parameters: object, where: str) -> Schema:
    """The input schema of a tool with *parameters*: an object's, whatever is left out of them.

    Raises:
        InvalidField: they describe something else than an object.
    """
    if parameters is None:
        parameters = {}
    if not isinstance(parameters, dict):
        raise InvalidField(f"'{where}' must be a JSON schema", param=where)
    said = parameters.get("type", "object")
    if said != "object" and not (isinstance(said, list) and "object" in said):
        raise InvalidField(f"'{where}.type' must be object for the Bedrock fallback", param=f"{where}.type")
    schema = parameters | {"type": "object"}
    if not isinstance(schema.get("properties"), dict):
        schema["properties"] = {}
    return schema


def grammar_schema(schema: Mapping[str, Any]) -> Schema | None:
    """*schema* such that a grammar can be made of it; None if there is none that says the same shape. O(schema).

    Each object is closed: ``additionalProperties`` is false, as OpenAI's strict mode has it, so an object whose fields
    are open cannot be said. What bounds a value moves into its description.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _enforced(schema)
    except _Unenforceable:
        return None


def _enforced(schema: object) -> Schema:
    if not isinstance(schema, Mapping):
        raise _Unenforceable  # true and false are schemas too
    made: Schema = {}
    said: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _KEPT:
            made[name] = value
        elif name in _MAPS and isinstance(value, dict):
            made[name] = {key: _enforced(inner) for key, inner in value.items()}
        elif name in _LISTS and isinstance(value, list) and not {"anyOf", "oneOf"} <= schema.keys():
            # A grammar does not know "exactly one": whatever fits one fits any.
            made["anyOf" if name == "oneOf" else name] = [_enforced(inner) for inner in value]
        elif name == "items":
            made[name] = _enforced(value)
        elif name in _SAID:
            said[name] = value
        elif name not in _LEFT_OUT:
            raise _Unenforceable
    _close(schema, made)
    if said.get("minItems") in (0, 1) and not isinstance(said["minItems"], bool):
        made["minItems"] = said.pop("minItems")
    if said:
        bounds = ", ".join(f"{name}: {msgspec.json.encode(value).decode()}" for name, value in said.items())
        described = made.get("description")
        made["description"] = f"{described} ({bounds})" if isinstance(described, str) and described else bounds
    return made


def _close(schema: Mapping[str, Any], made: Schema) -> None:
    kind = schema.get("type")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind) and "properties" not in schema:
        return
    if not schema.get("properties") and schema.get("additionalProperties") is not False:
        raise _Unenforceable  # any object will do
    if schema.get("additionalProperties") not in (None, False):
        raise _Unenforceable
    made["additionalProperties"] = False
