"""Issuer of tokens, and what the gateway expects of its tokens."""

from dataclasses import dataclass
from typing import Literal

from gateway.tenancy.identity.role_rule import RoleRule
from gateway.tenancy.identity.team_rule import TeamRule


@dataclass(frozen=True, slots=True)
class Provisioning:
    """Comparison of tokens with provisioned people."""

    claim: str = "sub"
    """Claim that identifies the person of a token."""
    attribute: Literal["userName", "externalId"] = "userName"
    """Attribute of people to which the claim is compared."""
    accepts_unknown: bool = False
    """Whether tokens of people who are not provisioned are accepted."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """OpenID Connect issuer, or the issuer of Kubernetes service-account tokens. Times are in seconds."""

    name: str
    """Name of the issuer in logs and in the ledger."""
    url: str
    """Exact value of the claim ``iss``."""
    audiences: frozenset[str]
    """Accepted values of the claim ``aud``."""
    algorithms: frozenset[str]
    """Accepted signature algorithms."""
    leeway_s: float
    """Accepted difference between the clocks of the issuer and of the gateway."""
    max_lifetime_s: float | None
    """Maximum time between the claims ``iat`` and ``exp``, or None for no limit."""
    user_claim: str
    """Claim with the end user."""
    rules: tuple[TeamRule, ...]
    """Rules for the team of a token. The first matching rule applies."""
    provisioning: Provisioning | None = None
    """Comparison of tokens with people whom the issuer provisions with SCIM, or None if it provisions no one."""
    admin_roles: tuple[RoleRule, ...] = ()
    """Rules for the role of a token in the administration. The first matching rule applies."""
