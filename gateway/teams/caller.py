"""Who asks: a key and the team that it belongs to."""

from gateway.teams.key import Key
from gateway.teams.networks import Networks
from gateway.teams.permits import Permits
from gateway.teams.team import Priority, Team


class Caller:
    """Made once for every key, and the same object for all of its requests until the key or the team is changed.

    Equal to itself only, so that it can stand in dictionaries for what is worked out once.
    """

    __slots__ = (
        "is_plain",
        "key",
        "key_id",
        "may_fall_back",
        "networks",
        "permits",
        "priority",
        "project",
        "team",
        "team_name",
        "weight",
    )

    def __init__(self, team: Team, key: Key) -> None:
        self.team = team
        self.key = key
        # Of both, what is read several times of every request: from here that is far cheaper than from a Struct.
        self.team_name: str = team.name
        self.key_id: str = key.id
        self.project: str | None = key.project
        self.priority: Priority = key.priority or team.priority
        self.weight: float = team.weight if key.weight is None else key.weight
        """Share of a saturated fleet, beside those of others."""
        self.may_fall_back: bool = team.fallback if key.fallback is None else key.fallback
        """Whether Bedrock may answer."""
        self.permits = Permits(team, key)
        """Which models and strategies it may ask for."""
        self.networks: Networks | None = None if key.networks is None else Networks(key.networks)
        """Where it may ask from; None: anywhere."""
        self.is_plain: bool = not (
            key.blocked or team.blocked or key.networks is not None or key.expires_at is not None
        )
        """The right secret is all that it takes."""

    def __repr__(self) -> str:
        return f"Caller(team={self.team.name!r}, key={self.key.id!r})"
