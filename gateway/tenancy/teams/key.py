"""API key of a team. Only a digest of the key's secret is stored."""

import msgspec

from gateway.tenancy.teams.limit_raise import LimitRaise
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Priority


class Former(msgspec.Struct, frozen=True):
    """Secret from before a key rotation that is still valid for a while."""

    digest: str
    until: float


class Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """API key of a team. Times are in seconds since 1970. For settings that are None, the team's value applies."""

    id: str
    """Public id of the key. It is allowed to appear in logs, metrics and responses."""
    team: str
    digest: str
    """Digest (HMAC-SHA-256) of the whole secret, in hexadecimal."""
    former_digest: str | None = None
    """Digest of the latest former secret, which stays valid until `former_until`."""
    former_until: float | None = None
    created_at: float = 0.0
    expires_at: float | None = None
    blocked: bool = False
    project: str | None = None
    models: tuple[str, ...] | None = None
    """Models that the key is allowed to use, among those that the team is allowed to use."""
    strategies: tuple[str, ...] | None = None
    fallback: bool | None = None
    networks: tuple[str, ...] | None = None
    """Addresses from which requests with the key are allowed, such as ``10.0.0.0/8``."""
    priority: Priority | None = None
    weight: float | None = None
    limits: Limits = Limits()
    model_limits: dict[str, Limits] = {}
    earlier: tuple[Former, ...] = ()
    """Secrets older than that of `former_digest` whose grace period has not ended, latest first."""
    limit_template: str | None = None
    """Name of the limit template whose limits apply where `limits` has none, or None."""
    raises: tuple[LimitRaise, ...] = ()
    """Temporary raises of limits of the key."""

    def formers(self, now: float) -> tuple[Former, ...]:
        """Return the former secrets that are valid at *now* in seconds since 1970, latest first."""
        return tuple(former for former in self.all_formers() if now < former.until)

    def all_formers(self) -> tuple[Former, ...]:
        """Return all former secrets, whether they are valid or not, latest first."""
        if self.former_digest is None:
            return self.earlier
        return (Former(self.former_digest, self.former_until or 0.0), *self.earlier)

    def __repr__(self) -> str:
        """Return the key as text without digests, because logs do not need digests."""
        return f"Key(id={self.id!r}, team={self.team!r})"
