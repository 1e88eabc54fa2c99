"""Options for tokens of identity providers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.tenancy.identity.issuer import Issuer


@dataclass(frozen=True, slots=True)
class KeySource:
    """Place of the keys of an issuer, and how often they are read. Times are in seconds."""

    issuer: str
    url: str | None
    """Address of the JSON Web Key Set, or None if the issuer's discovery document names it."""
    ca_file: Path | None
    token_file: Path | None
    """File with the token to send, read again for each request, or None for no token."""
    refresh_s: float
    stale_s: float


@dataclass(frozen=True, slots=True)
class LoginRules:
    """Client of the console at an issuer."""

    client_id: str
    client_secret: str | None = field(repr=False)
    """Secret of the client, or None for a public client."""
    public_url: str
    """Address of the gateway as browsers reach it, without a slash at its end."""
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdentityRules:
    issuers: tuple[tuple[Issuer, KeySource], ...] = ()
    logins: Mapping[str, LoginRules] = field(default_factory=dict)
    """Clients of the console, by the name of the issuer."""
    max_teams: int = 0
    """Number of teams at which no more teams are created for tokens."""
