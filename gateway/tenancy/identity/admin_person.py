"""People whose token has a role in the administration. The module needs no library for cryptography."""

from dataclasses import dataclass
from typing import Protocol

from gateway.tenancy.identity.provisioned import Standing
from gateway.tenancy.identity.role_rule import RoleGrant


@dataclass(frozen=True, slots=True)
class AdminPerson:
    """Person or program whose token has a role in the administration."""

    issuer: str
    """Name of the issuer."""
    user: str
    """End user of the token."""
    grant: RoleGrant
    expires_at: float
    """Time at which the token is no longer accepted, in seconds since 1970."""
    issued_at: float
    revocations: tuple[str, ...] = ()
    """Row names of all revocations that can concern the token."""
    person: str | None = None
    """Value of the claim that identifies the provisioned person, or None if the issuer provisions no people."""
    standing: Standing | None = None


class AdminTokenCheck(Protocol):
    """Check of tokens that callers of the admin API send in place of an admin key."""

    async def verify(self, token: str) -> AdminPerson:
        """Return the person of *token*.

        Raises:
            InvalidKey: if the token is not valid or was revoked.
            Forbidden: if no rule gives the token a role, or its person must be provisioned and is not.
            IssuerUnavailable: if the signing key is unknown, and the keys of the issuer cannot be read.
        """
        ...
