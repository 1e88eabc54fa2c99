"""A key of a team. What is kept of its secret is a digest."""

import msgspec

from gateway.teams.limits import Limits
from gateway.teams.team import Priority


class Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """Times are seconds since 1970. None: as the team has it."""

    id: str
    """Public: it may stand in logs, metrics and answers."""
    team: str
    digest: str
    """HMAC-SHA-256 of the whole secret, hexadecimal."""
    former_digest: str | None = None
    """That of the secret before the last rotation, which counts until `former_until`."""
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

    def __repr__(self) -> str:
        """Without the digests: a log has no use for them."""
        return f"Key(id={self.id!r}, team={self.team!r})"
