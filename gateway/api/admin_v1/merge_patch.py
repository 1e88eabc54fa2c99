"""JSON merge patches, RFC 7396: what a patch names is replaced, null takes away, all else stays."""

from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """*target* as *patch* changes it; neither is changed itself. Values as JSON has them."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
