"""Extraction of JSON from the text of a model that was only instructed to answer in JSON.

Such models wrap the JSON in code fences, write a sentence before it, or repeat the schema first.
"""

import json
from typing import Any

import msgspec

_decoder = json.JSONDecoder()
MOST_STARTS = 64
"""Maximum number of positions in a text at which to search for a JSON value. Each search costs O(remaining text)."""


def json_answer(text: str, schema: dict[str, Any] | None) -> str | None:
    """Return the whole *text* if it is JSON, otherwise the last JSON object in it, or None if there is no JSON.

    A repetition of *schema* itself is not returned. O(text), at most `MOST_STARTS` times.
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
    """Return the outermost JSON objects in *text*, each as a value and as the original text."""
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
