"""Depth limit for untrusted JSON, which can be nested too deeply for recursive code in the gateway or in Bedrock."""

from typing import Any

from gateway.backends.bedrock.json_object import read_object

DEEPEST = 100
"""Maximum nesting depth, far above that of real schemas and arguments and far below Python's recursion limit."""


def is_deep(value: object, *, levels: int = DEEPEST) -> bool:
    """Return whether *value* is nested deeper than *levels* arrays and objects. O(value), without recursion."""
    layer = [value]
    for _ in range(levels + 1):
        if not layer:
            return False
        layer = [inner for outer in layer for inner in _inside(outer)]
    return bool(layer)


def read_shallow_object(text: str) -> dict[str, Any] | None:
    """Parse *text* as a JSON object. Return None if it is not a JSON object or if it is nested too deeply."""
    try:
        found = read_object(text.encode())
    except ValueError:
        return None
    return None if is_deep(found) else found


def _inside(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
