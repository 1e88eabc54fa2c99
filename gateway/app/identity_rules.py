"""Options for tokens of identity providers."""

from dataclasses import dataclass
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
class IdentityRules:
    issuers: tuple[tuple[Issuer, KeySource], ...] = ()
    max_teams: int = 0
    """Number of teams at which no more teams are created for tokens."""
