"""Changes of resources by PATCH (RFC 7644, section 3.5.2), with the deviations of Okta and Microsoft Entra.

1. Names of operations and attributes ignore case.
2. A value without a path can have names with dots, such as ``name.givenName``.
3. An item that a filter such as ``emails[type eq "work"]`` does not find is added.
4. ``remove`` can list the members to remove as its value.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.api.scim.faults import ScimFault
from gateway.api.scim.filters import path_of, predicate_of, tokens

Json = dict[str, Any]

_PART = re.compile(r"\.[A-Za-z][\w$-]*")
"""Part of an item that a filter selects."""

MAX_OPERATIONS: Final = 1_000
MULTIPLE: Final = frozenset(
    {
        *("emails", "phonenumbers", "ims", "photos", "addresses", "entitlements", "roles", "x509certificates"),
        *("members", "groups"),
    }
)
"""Attributes that are lists, in lower case."""


def patched(resource: Json, operations: Any) -> Json:
    """Return a copy of *resource* after *operations*.

    Raises:
        ScimFault: if an operation is not valid. Then no operation has an effect.
    """
    if not isinstance(operations, list) or not 1 <= len(operations) <= MAX_OPERATIONS:
        text = f"'Operations' must be a list of 1 to {MAX_OPERATIONS} operations."
        raise ScimFault(400, text, "invalidSyntax")
    changed = {name: list(value) if isinstance(value, list) else value for name, value in resource.items()}
    for each in operations:
        if not isinstance(each, Mapping):
            raise ScimFault(400, "Each operation must be an object.", "invalidSyntax")
        name, path, value = str(each.get("op", "")).lower(), each.get("path"), each.get("value")
        if name not in {"add", "replace", "remove"}:
            raise ScimFault(400, "'op' must be add, replace or remove.", "invalidSyntax")
        if path is None or path == "":
            _patch_whole(changed, name, value)
        elif isinstance(path, str):
            _patch(changed, name, path, value)
        else:
            raise ScimFault(400, "'path' must be a text.", "invalidPath")
    return changed


def _patch_whole(resource: Json, name: str, value: Any) -> None:
    if name == "remove":
        raise ScimFault(400, "'remove' needs a path.", "noTarget")
    if not isinstance(value, Mapping):
        raise ScimFault(400, "An operation without a path needs an object as its value.", "invalidValue")
    for path, each in value.items():
        if path.startswith("urn:") and isinstance(each, Mapping):
            key = _key(resource, path)
            resource[key] = {**resource.get(key, {}), **each}
        else:
            _patch(resource, name, path, each)


def _patch(resource: Json, name: str, path: str, value: Any) -> None:
    said = [path] if "[" not in path else tokens(path)
    names = path_of(said[0])
    if len(said) > 1:
        _patch_items(resource, name, names, said[1:], value)
        return
    target = resource
    if len(names) > 1:
        key = _key(resource, names[0])
        inner = resource.get(key)
        if isinstance(inner, list):
            raise ScimFault(400, f"{names[0]!r} is a list: select an item with a filter.", "invalidPath")
        target = resource[key] = dict(inner) if isinstance(inner, Mapping) else {}
    for inside in names[1:-1]:
        key = _key(target, inside)
        deeper = target.get(key)
        target[key] = target = dict(deeper) if isinstance(deeper, Mapping) else {}
    key = _key(target, names[-1])
    if name == "remove":
        _remove(target, key, value)
    elif key.lower() in MULTIPLE and target is resource:
        items = value if isinstance(value, list) else [value]
        target[key] = _united(target.get(key) or [], items) if name == "add" else list(items)
    elif isinstance(value, Mapping) and isinstance(target.get(key), Mapping):
        target[key] = {**target[key], **value}
    else:
        target[key] = value


def _remove(target: Json, key: str, value: Any) -> None:
    present = target.get(key)
    if isinstance(present, list) and value:
        gone = {_identity(each) for each in (value if isinstance(value, list) else [value])}
        target[key] = [each for each in present if _identity(each) not in gone]
    else:
        target.pop(key, None)


def _patch_items(resource: Json, name: str, names: tuple[str, ...], said: list[str], value: Any) -> None:
    """Change the items of a list that a filter selects. *said* are the tokens from the ``[`` on."""
    if said[0] != "[" or "]" not in said or len(names) != 1:
        raise ScimFault(400, "The path is not valid.", "invalidPath")
    end = said.index("]")
    inner, rest = said[1:end], said[end + 1 :]
    if len(rest) > 1 or (rest and not _PART.fullmatch(rest[0])):
        raise ScimFault(400, "The path is not valid.", "invalidPath")
    attribute = rest[0][1:] if rest else None
    matches = predicate_of(inner)
    key = _key(resource, names[0])
    items = [dict(each) if isinstance(each, Mapping) else {"value": each} for each in resource.get(key) or []]
    found = [each for each in items if matches(each)]
    if name == "remove":
        for each in found if attribute is not None else ():
            each.pop(_key(each, attribute or ""), None)
        resource[key] = items if attribute is not None else [each for each in items if not matches(each)]
        return
    if not found:
        if len(inner) != 3 or inner[1].lower() != "eq":
            raise ScimFault(400, "The filter of the path selects nothing.", "noTarget")
        found = [{inner[0]: inner[2].strip('"')}]
        items += found
    for each in found:
        if attribute is not None:
            each[_key(each, attribute)] = value
        elif isinstance(value, Mapping):
            each.update(value)
        else:
            raise ScimFault(400, "An item of a list needs an object as its value.", "invalidValue")
    resource[key] = items


def _key(resource: Mapping[str, Any], name: str) -> str:
    """Return the key of *resource* that equals *name* but for its case, or *name* itself."""
    folded = name.casefold()
    return next((key for key in resource if key.casefold() == folded), name)


def _united(present: list[Any], added: list[Any]) -> list[Any]:
    known = {_identity(each) for each in present}
    return [*present, *(each for each in added if _identity(each) not in known)]


def _identity(item: Any) -> str:
    return str(item.get("value", sorted(item.items())) if isinstance(item, Mapping) else item)
