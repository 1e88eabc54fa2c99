"""Values of claims in a verified token, and the patterns to which rules compare them."""

from collections.abc import Mapping
from typing import Final

MOST_VALUES: Final = 1000
"""Maximum number of values that are read from one claim. Microsoft Entra issues at most 200 groups in a token."""


def values_at(claims: Mapping[str, object], path: str) -> tuple[str, ...]:
    """Return the texts of the claim at *path*: one for a text, several for a list, none for other types.

    A claim whose name equals *path* is preferred, because names of claims can contain dots
    (``https://example.com/groups``). Otherwise, dots in *path* separate the names of nested objects
    (``realm_access.roles``).
    """
    value = claims[path] if path in claims else _nested(claims, path)
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list):
        return tuple(each for each in value[:MOST_VALUES] if isinstance(each, str))
    return ()


def rest_of(pattern: str, value: str) -> str | None:
    """Return the part of *value* for which the ``*`` of *pattern* stands, or None if *value* does not match."""
    if not pattern.endswith("*"):
        return "" if value == pattern else None
    return value[len(pattern) - 1 :] if value.startswith(pattern[:-1]) else None


def _nested(claims: Mapping[str, object], path: str) -> object:
    value: object = claims
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value
