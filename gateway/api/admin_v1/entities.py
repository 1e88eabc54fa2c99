"""Teams and keys as the store has them at this very moment, with those that are declared in the settings."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.protocol.errors import Conflict, UnknownEntity
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import Change, TeamStore

T = TypeVar("T")

ATTEMPTS = 5
"""Attempts at a change while others change the same."""


class Entities:
    """Reads go to the store, so that what one gateway answered, the next one knows; writes are known here at once."""

    def __init__(self, store: TeamStore, directory: Directory) -> None:
        self._store = store
        self._directory = directory

    @property
    def directory(self) -> Directory:
        """The directory as it was last read."""
        return self._directory

    async def look(self) -> Directory:
        """All of them. O(teams + keys).

        Raises:
            StoreUnavailable: it cannot be reached.
        """
        snapshot = await self._store.load()
        if snapshot.revision != self._directory.revision:
            self._directory.apply(snapshot)
        return self._directory

    async def team(self, name: str, *, to_change: bool = False) -> Team:
        """The team *name*; *to_change*: only if it can be.

        Raises:
            UnknownEntity: it does not exist.
            Conflict: it is declared in the settings.
            StoreUnavailable: the store cannot be read.
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
            Conflict, UnknownEntity, StoreUnavailable: as `TeamStore.write`.
        """
        self._directory.apply(await self._store.write(change, audit))


async def retried(change: Callable[[], Awaitable[T]]) -> T:
    """Return the result of *change*, which reads, decides and writes; it is repeated after a concurrent change.

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
    """The object is defined in the configuration, and can be changed only there."""


class Overtaken(Conflict):
    """Another request has changed it in between, and to try again would not help."""


def unknown_team(name: str, *, param: str | None = None) -> UnknownEntity:
    return UnknownEntity(f"There is no team {name[:100]!r}", param=param)


def unknown_key(key_id: str, *, param: str | None = None) -> UnknownEntity:
    return UnknownEntity(f"There is no key {key_id[:100]!r}", param=param)


def _declared(what: str) -> DeclaredElsewhere:
    return DeclaredElsewhere(f"{what} is declared in the configuration, under teams: it can be changed only there")
