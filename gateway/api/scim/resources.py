"""Users and groups in the form of SCIM (RFC 7643, section 4), and in their stored form."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from gateway.api.scim.faults import ScimFault
from gateway.api.times import to_the_millisecond
from gateway.tenancy.teams.access_records import MAX_ATTRIBUTE_BYTES, ProvisionedGroup, ProvisionedUser

Json = dict[str, Any]

USER: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP: Final = "urn:ietf:params:scim:schemas:core:2.0:Group"
ENTERPRISE: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
MAX_TEXT: Final = 256
"""Maximum number of characters of a user name, a group name and an external id."""

_CANONICAL: Final = {
    name.casefold(): name
    for name in ("schemas", "id", "meta", "externalId", "userName", "active", "groups", "password", "displayName")
} | {"members": "members"}
_OWN: Final = frozenset({"schemas", "id", "meta", "externalId", "userName", "active", "groups", "password"})
"""Attributes of users that are stored in fields of their own or not at all. Passwords are never stored."""


def user_json(user: ProvisionedUser, groups: Mapping[str, ProvisionedGroup], base: str) -> Json:
    """Return *user* in the form of SCIM. *base* is the address of the SCIM server."""
    attributes = attributes_of(user)
    extension = [ENTERPRISE] if ENTERPRISE in attributes else []
    members = [
        {"value": each, "$ref": f"{base}/Groups/{each}", "display": groups[each].display_name}
        for each in user.groups
        if each in groups
    ]
    return {
        **attributes,
        "schemas": [USER, *extension],
        "id": user.id,
        **({} if user.external_id is None else {"externalId": user.external_id}),
        "userName": user.user_name,
        "active": user.active,
        "groups": members,
        "meta": _meta("User", f"{base}/Users/{user.id}", user),
    }


def attributes_of(user: ProvisionedUser) -> Json:
    """Return the attributes of *user* that have no fields of their own."""
    return msgspec.json.decode(user.attributes, type=dict[str, Any])


def group_json(group: ProvisionedGroup, members: Iterable[ProvisionedUser], base: str) -> Json:
    """Return *group* with *members* in the form of SCIM."""
    return {
        "schemas": [GROUP],
        "id": group.id,
        **({} if group.external_id is None else {"externalId": group.external_id}),
        "displayName": group.display_name,
        "members": [
            {"value": each.id, "$ref": f"{base}/Users/{each.id}", "display": each.user_name} for each in members
        ],
        "meta": _meta("Group", f"{base}/Groups/{group.id}", group),
    }


def user_of(body: Json, former: ProvisionedUser) -> ProvisionedUser:
    """Return *former* with the attributes of *body*. Groups, times and the id stay.

    Raises:
        ScimFault: ``invalidValue`` if an attribute is missing or not valid.
    """
    said = canonical(body)
    attributes = {name: value for name, value in said.items() if name not in _OWN and value is not None}
    encoded = msgspec.json.encode(attributes)
    if len(encoded) > MAX_ATTRIBUTE_BYTES:
        raise _invalid(f"The attributes of a user can have at most {MAX_ATTRIBUTE_BYTES:,} bytes.")
    return structs.replace(
        former,
        user_name=_text(said, "userName"),
        active=_truth(said.get("active", True)),
        external_id=_optional_text(said, "externalId"),
        attributes=encoded.decode(),
    )


def group_of(body: Json, former: ProvisionedGroup) -> ProvisionedGroup:
    """Return *former* with the attributes of *body*, except for the members.

    Raises:
        ScimFault: ``invalidValue`` if an attribute is missing or not valid.
    """
    said = canonical(body)
    name, external_id = _text(said, "displayName"), _optional_text(said, "externalId")
    return structs.replace(former, display_name=name, external_id=external_id)


def members_of(body: Json) -> tuple[str, ...] | None:
    """Return the ids of the members in *body*, each once, or None if *body* does not contain the attribute.

    Raises:
        ScimFault: ``invalidValue`` if the members are not valid.
    """
    members = canonical(body).get("members")
    if members is None:
        return None
    if not isinstance(members, list):
        raise _invalid("'members' must be a list.")
    values = [each.get("value") if isinstance(each, Mapping) else None for each in members]
    ids = [each for each in values if isinstance(each, str)]
    if len(ids) < len(values):
        raise _invalid("Each member must be an object with the id of a user as its value.")
    return tuple(dict.fromkeys(ids))


def canonical(body: Json) -> Json:
    """Return *body* with the usual case of its known top-level names, because names ignore case."""
    return {_CANONICAL.get(name.casefold(), name): value for name, value in body.items()}


def _meta(kind: str, location: str, record: ProvisionedUser | ProvisionedGroup) -> Json:
    return {
        "resourceType": kind,
        "created": to_the_millisecond(record.created_at),
        "lastModified": to_the_millisecond(record.changed_at),
        "location": location,
    }


def _text(said: Json, name: str) -> str:
    value = _optional_text(said, name)
    if value is None:
        raise _invalid(f"'{name}' is required.")
    return value


def _optional_text(said: Json, name: str) -> str | None:
    value = said.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_TEXT or not value.isprintable():
        raise _invalid(f"'{name}' must be a text of 1 to {MAX_TEXT} printable characters.")
    return value


def _truth(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in {"true", "false"}:  # as Microsoft Entra sends it
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise _invalid("'active' must be true or false.")
    return value


def _invalid(text: str) -> ScimFault:
    return ScimFault(400, text, "invalidValue")
