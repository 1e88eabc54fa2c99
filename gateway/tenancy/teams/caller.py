"""API key together with its team."""

from gateway.protocol.errors import Forbidden
from gateway.protocol.networks import Networks
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limit_raise import LimitRaise
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.permits import Permits
from gateway.tenancy.teams.team import CallerPriority, Team


class Caller:
    """Key and team for which a request is made. All requests of a key share one object until the key or its team
    changes.

    Objects are compared by identity, so that dictionary lookups are cheap.
    """

    __slots__ = (
        "end_user",
        "is_batch",
        "is_plain",
        "key",
        "key_id",
        "limits_sessions",
        "limits_users",
        "lost_template",
        "may_fall_back",
        "networks",
        "permits",
        "priority",
        "project",
        "raises",
        "team",
        "team_name",
        "weight",
    )

    def __init__(self, team: Team, key: Key, *, end_user: str | None = None) -> None:
        self.team = team
        self.key = key
        self.end_user = end_user
        """End user whom a verified token names, or None if the caller has an API key or the token names no end user."""
        # Fields that every request reads several times: reading them here is much cheaper than from a Struct.
        self.team_name: str = team.name
        self.key_id: str = key.id
        self.project: str | None = key.project
        self.priority: CallerPriority = key.priority or team.priority
        self.weight: float = team.weight if key.weight is None else key.weight
        """Share of fully used workers that the caller gets, relative to other callers."""
        self.may_fall_back: bool = team.fallback if key.fallback is None else key.fallback
        """Whether fallbacks are allowed to answer the caller's requests."""
        self.limits_users: bool = team.user_limits != Limits()
        """Whether each end user of the team has limits."""
        self.limits_sessions: bool = team.session_limits != Limits()
        """Whether each session of the team has limits."""
        self.raises: tuple[LimitRaise, ...] = key.raises + team.raises
        """Temporary raises of the caller's limits. Some may have ended."""
        self.permits = Permits(team, key)
        """Models and strategies that the caller is allowed to use."""
        self.networks: Networks | None = None if key.networks is None else Networks(key.networks)
        """Networks from which the caller is allowed to send requests, or None if all networks are allowed."""
        self.lost_template: str | None = team.limit_template or key.limit_template
        """Name of the limit template that the settings do not have, or None. The caller must then be refused."""
        self.is_plain: bool = not (
            key.blocked
            or team.blocked
            or key.networks is not None
            or key.expires_at is not None
            or self.lost_template is not None
        )
        """Whether the caller needs nothing but the current secret, because no expiry, no blocking and no address check
        applies, and its limits are known.
        """
        self.is_batch = False
        """Whether the requests of the caller are lines of batches, which can have a discount."""

    def for_batch(self, priority: CallerPriority = "batch", *, may_fall_back: bool = True) -> "Caller":
        """Return a caller for lines of batches that the same key created. The network of the request that created the
        batch was checked.

        Fallbacks answer its requests if *may_fall_back* is true and they can answer requests of the key.
        """
        caller = Caller(self.team, self.key)
        caller.priority = priority
        caller.may_fall_back = may_fall_back and self.may_fall_back
        caller.networks = None
        caller.is_batch = True
        return caller

    def check_limits(self) -> None:
        """Raise an error if the caller has limits that are not known.

        Raises:
            Forbidden: ``limit_template_missing`` if the settings do not have the caller's limit template.
        """
        if self.lost_template is not None:
            text = f"The limit template {self.lost_template!r} of the team {self.team_name!r} or of its API key is "
            refusal = Forbidden(f"{text}missing in the settings", code="limit_template_missing")
            refusal.whose = (self.team_name, self.key_id)
            raise refusal

    def __repr__(self) -> str:
        return f"Caller(team={self.team.name!r}, key={self.key.id!r})"
