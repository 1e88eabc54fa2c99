"""JSON merge patches (RFC 7396): null removes a field, any other value replaces it, and all other fields stay
unchanged.
"""

from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """Return the JSON value *target* with the merge patch *patch* applied. Neither argument is modified."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
