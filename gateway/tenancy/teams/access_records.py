"""Records that decide which tokens of identity providers are accepted, in their stored form, without secrets."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

MAX_REVOCATIONS: Final = 10_000
"""Maximum number of revocations in a store. Expired ones are removed when a new one is added."""
MAX_VALUE: Final = 512
"""Maximum number of characters of a revoked value."""

MAX_USERS: Final = 10_000
"""Maximum number of provisioned people in a store."""
MAX_GROUPS: Final = 1_000
"""Maximum number of provisioned groups in a store."""
MAX_USER_GROUPS: Final = 200
"""Maximum number of groups of a person. Microsoft Entra has the same limit for tokens."""
MAX_ATTRIBUTE_BYTES: Final = 4096

RevokedScope = Literal["token", "session", "subject"]


class Revocation(msgspec.Struct, frozen=True, omit_defaults=True, tag="revocation"):
    """Revocation of one token, of all tokens of a session, or of all tokens that a person has so far.

    Times are in seconds since 1970.
    """

    issuer: str
    """Name of the issuer in the settings."""
    scope: RevokedScope
    value: str
    """Value of the claim ``jti``, of the claim ``sid``, or of the claims ``sub`` and `Issuer.user_claim`."""
    revoked_at: float
    expires_at: float
    """Time after which the revocation has no effect."""
    reason: str = ""

    @property
    def name(self) -> str:
        """Name of the row of the revocation in the store."""
        return revocation_name(self.issuer, self.scope, self.value)

    @property
    def id(self) -> str:
        """Identifier of the revocation in the admin API."""
        return self.name.removeprefix(_REVOCATION)


class ProvisionedUser(msgspec.Struct, frozen=True, omit_defaults=True, tag="user"):
    """Person that an identity provider keeps up to date with SCIM. Times are in seconds since 1970."""

    issuer: str
    """Name of the issuer in the settings."""
    id: str
    user_name: str
    active: bool = True
    external_id: str | None = None
    groups: tuple[str, ...] = ()
    """Ids of the groups of which the person is a member."""
    attributes: str = "{}"
    """All other attributes in the form of SCIM: the JSON text of an object, of at most `MAX_ATTRIBUTE_BYTES`.

    A text takes a tenth of the memory of the objects, and only SCIM requests need them.
    """
    created_at: float = 0.0
    changed_at: float = 0.0

    @property
    def name(self) -> str:
        """Name of the row of the person in the store."""
        return user_row(self.id)


class ProvisionedGroup(msgspec.Struct, frozen=True, omit_defaults=True, tag="group"):
    """Group that an identity provider keeps up to date with SCIM. Its members name it."""

    issuer: str
    id: str
    display_name: str
    external_id: str | None = None
    created_at: float = 0.0
    changed_at: float = 0.0

    @property
    def name(self) -> str:
        """Name of the row of the group in the store."""
        return group_row(self.id)


AccessRecord = Revocation | ProvisionedUser | ProvisionedGroup

_REVOCATION: Final = "revocation/"


def revocation_name(issuer: str, scope: RevokedScope, value: str) -> str:
    """Return the row name of a revocation. It has the same length for all values. Takes about 2 us."""
    said = msgspec.json.encode((issuer, scope, value))
    return _REVOCATION + hashlib.sha256(said).hexdigest()[:32]


def is_revoked(records: Mapping[str, AccessRecord], names: Iterable[str], issued_at: float, now: float) -> bool:
    """Return whether one of the revocations *names* in *records* concerns a token that was issued at *issued_at*.

    Times are in seconds since 1970.
    """
    if not records:
        return False
    for name in names:
        found = records.get(name)
        if (
            isinstance(found, Revocation)
            and now < found.expires_at
            and (found.scope != "subject" or issued_at <= found.revoked_at)
        ):
            return True
    return False


def revocation_of_id(identifier: str) -> str:
    """Return the row name of the revocation with *identifier*."""
    return _REVOCATION + identifier


def user_row(identifier: str) -> str:
    """Return the row name of the person with *identifier*."""
    return f"user/{identifier}"


def group_row(identifier: str) -> str:
    """Return the row name of the group with *identifier*."""
    return f"group/{identifier}"
