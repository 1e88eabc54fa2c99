"""Documents that describe the SCIM server to clients (RFC 7643, sections 5 to 7)."""

from typing import Any, Final

from gateway.api.scim.resources import GROUP, USER

Json = dict[str, Any]

MAX_PAGE: Final = 200
"""Maximum number of resources on a page."""
_SCHEMA: Final = "urn:ietf:params:scim:schemas:core:2.0:Schema"
_TYPE: Final = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"

CONFIGURATION: Final[Json] = {
    "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
    "patch": {"supported": True},
    "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
    "filter": {"supported": True, "maxResults": MAX_PAGE},
    "changePassword": {"supported": False},
    "sort": {"supported": False},
    "etag": {"supported": False},
    "authenticationSchemes": [
        {
            "type": "oauthbearertoken",
            "name": "Bearer token",
            "description": "the token in the setting identity.issuers[].scim.secret",
            "primary": True,
        }
    ],
}


def _attribute(name: str, kind: str = "string", **more: Any) -> Json:
    usual = {
        "multiValued": False,
        "required": False,
        "caseExact": False,
        "mutability": "readWrite",
        "returned": "default",
        "uniqueness": "none",
    }
    return {"name": name, "type": kind, **usual, **more}


_NAME = ("formatted", "familyName", "givenName")
_ITEM = [_attribute("value"), _attribute("type"), _attribute("primary", "boolean")]
_REFERENCE = [_attribute("value"), _attribute("$ref", "reference"), _attribute("display")]

SCHEMAS: Final[dict[str, Json]] = {
    USER: {
        "schemas": [_SCHEMA],
        "id": USER,
        "name": "User",
        "description": "person who can use the gateway with tokens",
        "attributes": [
            _attribute("userName", required=True, uniqueness="server"),
            _attribute("externalId", caseExact=True),
            _attribute("active", "boolean"),
            _attribute("displayName"),
            _attribute("name", "complex", subAttributes=[_attribute(each) for each in _NAME]),
            _attribute("emails", "complex", multiValued=True, subAttributes=_ITEM),
            _attribute("groups", "complex", multiValued=True, mutability="readOnly", subAttributes=_REFERENCE),
        ],
    },
    GROUP: {
        "schemas": [_SCHEMA],
        "id": GROUP,
        "name": "Group",
        "description": "group of people, which rules map to a team",
        "attributes": [
            _attribute("displayName", required=True, uniqueness="server"),
            _attribute("externalId", caseExact=True),
            _attribute("members", "complex", multiValued=True, subAttributes=_REFERENCE),
        ],
    },
}
"""Schemas by id."""

TYPES: Final[dict[str, Json]] = {
    name: {"schemas": [_TYPE], "id": name, "name": name, "endpoint": f"/{name}s", "schema": schema}
    for name, schema in (("User", USER), ("Group", GROUP))
}
"""Resource types by name."""
