"""JSON out of an answer that was to be JSON, of a model that was only asked for it in words.

Such models put it between code fences, say a sentence before it, or repeat the schema first.
"""

import json
from typing import Any

import msgspec

_decoder = json.JSONDecoder()
MOST_STARTS = 64
"""Positions at which a value is searched: each costs as much as the text after it is long."""


def json_answer(text: str, schema: dict[str, Any] | None) -> str | None:
    """Return the JSON in *text*: all of it if that is JSON, else the last object in it; None without one.

    What repeats *schema* is not an answer to it. O(text), at most `MOST_STARTS` times.
    """
    whole = text.strip()
    try:
        value = msgspec.json.decode(whole)
    except (msgspec.DecodeError, RecursionError):
        pass
    else:
        return None if _is_schema(value, schema) else whole
    found = [said for value, said in _objects(whole) if not _is_schema(value, schema)]
    return found[-1] if found else None


def _objects(text: str) -> list[tuple[Any, str]]:
    """The JSON objects in *text* that stand in no other, with how they are written."""
    found: list[tuple[Any, str]] = []
    at, starts = text.find("{"), 0
    while at >= 0 and starts < MOST_STARTS:
        starts += 1
        try:
            value, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found.append((value, text[at:end]))
        at = text.find("{", end)
    return found


def _is_schema(value: object, schema: dict[str, Any] | None) -> bool:
    if schema is None or not isinstance(value, dict):
        return False
    if value == schema:
        return True
    own = schema.get("properties")
    is_shape = value.get("type") == "object" and isinstance(value.get("properties"), dict)
    return is_shape and not (isinstance(own, dict) and {"type", "properties"} & own.keys())
