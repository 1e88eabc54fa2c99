"""Leases of the quota reservations that are active in this gateway."""

from collections.abc import Callable, Mapping, Sequence

from gateway.tenancy.quota.redis_meters import RedisMeters
from gateway.tenancy.quota.share import Live
from gateway.tenancy.quota.team_calls import TeamCalls

RENEWED = 500
"""Maximum number of leases to renew in one call."""


class Leases:
    """Active reservations, and the calls that renew their leases in the store."""

    def __init__(self, meters: RedisMeters, calls: TeamCalls, *, clock: Callable[[], float]) -> None:
        """Create an empty set of leases. *clock* returns the time in seconds since 1970."""
        self._meters = meters
        self._calls = calls
        self._clock = clock
        self._live: dict[str, Live] = {}
        self._unsure: set[str] = set()
        """Reservations that the store might not know, because they were granted without it or just before it became
        unavailable.
        """
        self._cursors: dict[str, int] = {}

    @property
    def live(self) -> Mapping[str, Live]:
        return self._live

    def add(self, reservation: str, live: Live, *, is_unsure: bool = False) -> None:
        self._live[reservation] = live
        if is_unsure:
            self._unsure.add(reservation)

    def end(self, reservation: str) -> bool:
        """Remove *reservation* from the active ones. Return whether it was active."""
        self._unsure.discard(reservation)
        return self._live.pop(reservation, None) is not None

    def doubt_all(self) -> None:
        """Mark every reservation as possibly lost by the store."""
        self._unsure.update(self._live)

    def pop_unsure(self) -> list[tuple[str, Live]]:
        """Return the reservations that the store might not know, and clear their list. The caller must send them to the
        store.
        """
        unsure, self._unsure = self._unsure, set()
        return [(reservation, self._live[reservation]) for reservation in unsure]

    def by_team(self) -> dict[str, list[str]]:
        alive: dict[str, list[str]] = {}
        for reservation, live in self._live.items():
            alive.setdefault(live.team, []).append(reservation)
        return alive

    async def renew(self, alive: Mapping[str, Sequence[str]]) -> None:
        """Renew the leases of the reservations in *alive*, grouped by team. Also settle all teams' reservations of
        crashed gateways.

        Raises:
            StoreUnavailable: if some leases were not renewed.
        """
        if alive:
            await self._meters.register(alive, self._clock())
        teams = {*await self._meters.teams(self._clock()), *alive}
        await self._calls.call_for_all(lambda team: self._renew_for(team, alive.get(team, ())), teams)

    async def _renew_for(self, team: str, alive: Sequence[str]) -> None:
        cursor = self._cursors.pop(team, 0)
        tended = await self._meters.tend(team, alive[:RENEWED], cursor=cursor)
        for i in range(RENEWED, len(alive), RENEWED):
            tended = await self._meters.tend(team, alive[i : i + RENEWED], cursor=tended.cursor)
        while tended.lost:
            tended = await self._meters.tend(team, (), cursor=tended.cursor)
        if tended.cursor:
            self._cursors[team] = tended.cursor
