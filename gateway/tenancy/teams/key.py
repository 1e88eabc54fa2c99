"""A key of a team. What is kept of its secret is a digest."""

import msgspec

from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Priority


class Former(msgspec.Struct, frozen=True):
    """A secret from before a rotation that still counts."""

    digest: str
    until: float


class Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key. Times are seconds since 1970. None: the value of the team."""

    id: str
    """Public: it may stand in logs, metrics and answers."""
    team: str
    digest: str
    """HMAC-SHA-256 of the whole secret, hexadecimal."""
    former_digest: str | None = None
    """Digest of the latest former secret whose grace runs until `former_until`."""
    former_until: float | None = None
    created_at: float = 0.0
    expires_at: float | None = None
    blocked: bool = False
    project: str | None = None
    models: tuple[str, ...] | None = None
    """Narrows what the team may use."""
    strategies: tuple[str, ...] | None = None
    fallback: bool | None = None
    networks: tuple[str, ...] | None = None
    """Addresses that requests may come from, such as ``10.0.0.0/8``."""
    priority: Priority | None = None
    weight: float | None = None
    limits: Limits = Limits()
    model_limits: dict[str, Limits] = {}
    earlier: tuple[Former, ...] = ()
    """Secrets before the one of `former_digest` whose graces still run, latest first."""

    def formers(self, now: float) -> tuple[Former, ...]:
        """Return the former secrets that count at *now*, in seconds since 1970, latest first."""
        return tuple(former for former in self.all_formers() if now < former.until)

    def all_formers(self) -> tuple[Former, ...]:
        """Return the former secrets, whether or not they still count, latest first."""
        if self.former_digest is None:
            return self.earlier
        return (Former(self.former_digest, self.former_until or 0.0), *self.earlier)

    def __repr__(self) -> str:
        """Show the key without digests: logs have no use for them."""
        return f"Key(id={self.id!r}, team={self.team!r})"
