"""Conversion of JSON schemas to the forms that Bedrock's models and their grammars accept.

A tool's schema only has to describe an object. An enforced schema (``outputConfig``, ``strict``) is compiled to a
grammar that supports only part of JSON Schema. Objects then allow no additional properties, and bounds, lengths and
patterns move to the descriptions.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.protocol.errors import InvalidField

Schema = dict[str, Any]

# What a grammar follows. The rest either says nothing about the shape (`_SAID`, `_LEFT_OUT`), or cannot be enforced.
_KEPT = {"type", "enum", "const", "$ref", "title", "description", "required", "format"}
_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "allOf", "oneOf")
_VALUES = {"enum", "const", "default", "examples", "required"}
"""Schema keywords that contain values instead of schemas."""
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
    """The schema uses a feature that the grammar does not support."""


def tool_schema(parameters: object, where: str) -> Schema:
    """Return the input schema for a tool with *parameters*. The result is always an object schema.

    Raises:
        InvalidField: if *parameters* describes something other than an object.
    """
    if parameters is None:
        parameters = {}
    if not isinstance(parameters, dict):
        raise InvalidField(f"'{where}' must be a JSON schema", param=where)
    root = _joined(_typed(parameters))
    said = root.get("type", "object")
    if said == "null":
        return {"type": "object", "properties": {}}  # of a tool that takes nothing
    if said != "object" and not (isinstance(said, list) and "object" in said):
        raise InvalidField(f"'{where}.type' must be object for the Bedrock fallback", param=f"{where}.type")
    schema = root | {"type": "object"}
    if not isinstance(schema.get("properties"), dict):
        schema["properties"] = {}
    return schema


def _typed(schema: Any) -> Any:
    """Return *schema* without ``"type": null``, which some clients write if the type is unknown. O(schema)."""
    if isinstance(schema, list):
        return [_typed(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value if name in _VALUES else _typed(value)
        for name, value in schema.items()
        if not (name == "type" and value is None)
    }


def _joined(schema: Schema) -> Schema:
    """Return *schema* with the alternatives at its root merged into one object, because models accept none there.

    The merged object has the properties of all alternatives and requires those that every alternative requires. Its
    description states which groups of properties are complete alternatives.
    """
    rest = {name: value for name, value in schema.items() if name not in _LISTS}
    for name in _LISTS:
        branches = [_resolved(branch, schema) for branch in schema.get(name) or [] if isinstance(branch, dict)]
        objects = [branch for branch in branches if branch.get("type", "object") in ("object", ["object", "null"])]
        if not objects:
            continue
        kinds = {"type": "object", "properties": _properties([rest, *objects])}
        required = [set(_required(branch)) for branch in objects]
        needed = set.union(*required) if name == "allOf" else set.intersection(*required)
        rest |= kinds | {"required": sorted({*_required(rest), *needed})}
        if name != "allOf" and len(objects) > 1:
            groups = " | ".join(", ".join(sorted(each)) or "nothing" for each in required)
            words = f"Needs one of these groups of properties: {groups}."
            rest["description"] = " ".join(filter(None, [rest.get("description", ""), words]))
        rest.pop("additionalProperties", None)
    return rest if rest.get("required", True) else {name: rest[name] for name in rest if name != "required"}


def _properties(schemas: list[Schema]) -> Schema:
    """Return the merged properties of all *schemas*. A property with several definitions becomes their ``anyOf``."""
    found: dict[str, list[Any]] = {}
    for schema in schemas:
        for name, value in (schema.get("properties") or {}).items():
            known = found.setdefault(name, [])
            if value not in known:
                known.append(value)
    return {name: values[0] if len(values) == 1 else {"anyOf": values} for name, values in found.items()}


def _required(schema: Schema) -> list[str]:
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _resolved(branch: Schema, root: Schema) -> Schema:
    """Return the definition in *root* that *branch* refers to, or *branch* itself if it has no reference."""
    match str(branch.get("$ref", "")).split("/"):
        case ["#", "$defs" | "definitions" as place, name]:
            found = (root.get(place) or {}).get(name)
            return found if isinstance(found, dict) else branch
    return branch


def grammar_schema(schema: Mapping[str, Any]) -> Schema | None:
    """Return *schema* in the form of a grammar, or None if the grammar cannot express it. O(schema).

    Every object gets ``additionalProperties: false``, as in OpenAI's strict mode, so objects with arbitrary properties
    cannot be expressed. Limits on values move to the descriptions.
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
