"""Depth of JSON. That of others may be deeper than the code that walks it, here or in Bedrock, can follow."""

from typing import Any

from gateway.backends.bedrock.json_object import read_object

DEEPEST = 100
"""Levels. Far more than any schema or argument has, and far less than Python's recursion limit."""


def is_deep(value: object, *, levels: int = DEEPEST) -> bool:
    """There is something in *value* below so many arrays and objects. O(value), without recursion."""
    layer = [value]
    for _ in range(levels + 1):
        if not layer:
            return False
        layer = [inner for outer in layer for inner in _inside(outer)]
    return bool(layer)


def read_shallow_object(text: str) -> dict[str, Any] | None:
    """Return the object in *text*; None if it is not JSON of one, or too deep."""
    try:
        found = read_object(text.encode())
    except ValueError:
        return None
    return None if is_deep(found) else found


def _inside(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
