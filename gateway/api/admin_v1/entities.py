"""Teams and keys as the store has them at this very moment, with those that are declared in the settings."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.errors import Conflict, UnknownEntity
from gateway.ledger.audit import AuditEntry
from gateway.teams.directory import Directory
from gateway.teams.key import Key
from gateway.teams.team import Team
from gateway.teams.team_store import Change, TeamStore

T = TypeVar("T")

ATTEMPTS = 5
"""To change what others change at the same time."""


class Entities:
    """Reads go to the store, so that what one gateway answered, the next one knows; writes are known here at once."""

    def __init__(self, store: TeamStore, directory: Directory) -> None:
        self._store = store
        self._directory = directory

    @property
    def directory(self) -> Directory:
        """As it was when somebody looked last."""
        return self._directory

    async def look(self) -> Directory:
        """All of them. O(teams + keys).

        Raises:
            StoreAway: it cannot be reached.
        """
        snapshot = await self._store.load()
        if snapshot.revision != self._directory.revision:
            self._directory.take(snapshot)
        return self._directory

    async def team(self, name: str, *, to_change: bool = False) -> Team:
        """The team *name*; *to_change*: only if it can be.

        Raises:
            UnknownEntity: there is none.
            Conflict: it is declared in the settings.
            StoreAway: it cannot be told.
        """
        directory = await self.look()
        team = directory.teams.get(name)
        if team is None:
            raise unknown_team(name)
        if to_change and directory.is_declared_team(name):
            raise _declared(f"The team {name!r}")
        return team

    async def key(self, key_id: str, *, to_change: bool = False) -> Key:
        """The key *key_id*; *to_change*: only if it can be.

        Raises:
            As `team`.
        """
        directory = await self.look()
        key = directory.keys.get(key_id)
        if key is None:
            raise unknown_key(key_id)
        if to_change and directory.is_declared_key(key_id):
            raise _declared(f"The key {key_id!r}")
        return key

    async def write(self, change: Change, audit: AuditEntry) -> None:
        """Carry out *change*, and log it.

        Raises:
            Conflict, UnknownEntity, StoreAway: as `TeamStore.write`.
        """
        self._directory.take(await self._store.write(change, audit))


async def retried(change: Callable[[], Awaitable[T]]) -> T:
    """What *change* comes to: it looks, works out, and writes, again if somebody was faster in between.

    Raises:
        Conflict: somebody was, `ATTEMPTS` times.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return await change()
        except (DeclaredElsewhere, Overtaken):
            raise
        except Conflict:
            continue
    return await change()


class DeclaredElsewhere(Conflict):
    """It stands in the configuration, which is where it can be changed."""


class Overtaken(Conflict):
    """Another request has changed it in between, and to try again would not help."""


def unknown_team(name: str, *, param: str | None = None) -> UnknownEntity:
    return UnknownEntity(f"There is no team {name[:100]!r}", param=param)


def unknown_key(key_id: str, *, param: str | None = None) -> UnknownEntity:
    return UnknownEntity(f"There is no key {key_id[:100]!r}", param=param)


def _declared(what: str) -> DeclaredElsewhere:
    return DeclaredElsewhere(f"{what} is declared in the configuration, under teams: it can be changed only there")
