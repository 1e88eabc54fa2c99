"""Creation of teams on behalf of issuers of tokens."""

from collections.abc import Callable

from gateway.api.admin_v1.response_models import team_state
from gateway.api.times import to_the_millisecond
from gateway.protocol.errors import Conflict
from gateway.tenancy.ledger.audit import AuditEntry, shown
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import PutTeam, TeamStore


class CreatedTeams:
    """Function object that stores a team which the token of an issuer names. Other gateways see the team as well."""

    def __init__(self, store: TeamStore, directory: Directory, *, wall_clock: Callable[[], float]) -> None:
        self._store = store
        self._directory = directory
        self._wall_clock = wall_clock

    async def __call__(self, team: Team, author: str) -> None:
        """Store *team* and log *author* as its author. A team that another request has created is kept.

        Raises:
            StoreUnavailable: if the store cannot be reached.
        """
        audit = AuditEntry(
            time=to_the_millisecond(self._wall_clock()),
            who=author,
            role="issuer",
            action="create",
            kind="team",
            id=team.name,
            team=team.name,
            after=shown({"name": team.name, **team_state(team)}),
        )
        try:
            self._directory.apply(await self._store.write(PutTeam(team), audit))
        except Conflict:
            self._directory.apply(await self._store.load())
