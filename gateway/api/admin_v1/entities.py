"""Teams and keys, read from the store for every request and combined with the teams and keys in the settings."""

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
"""Maximum number of attempts at a change while other requests change the same object."""


class Entities:
    """Access to the teams and keys in the store. All gateways with this store see the same state and can change it."""

    def __init__(self, store: TeamStore, directory: Directory) -> None:
        self._store = store
        self._directory = directory

    @property
    def directory(self) -> Directory:
        """Directory of the teams and keys that were read last."""
        return self._directory

    async def look(self) -> Directory:
        """Read all teams and keys from the store and return them. O(teams + keys).

        Raises:
            StoreUnavailable: if the store cannot be reached.
        """
        snapshot = await self._store.load()
        if snapshot.revision != self._directory.revision:
            self._directory.apply(snapshot)
        return self._directory

    async def team(self, name: str, *, to_change: bool = False) -> Team:
        """Return the team *name* as configured or stored. If *to_change* is true, require that it can be changed.

        Raises:
            UnknownEntity: if the team does not exist.
            Conflict: if the team is to be changed but is declared in the settings.
            StoreUnavailable: if the store cannot be read.
        """
        directory = await self.look()
        team = directory.written_teams.get(name)
        if team is None:
            raise unknown_team(name)
        if to_change and directory.is_declared_team(name):
            raise _declared(f"The team {name!r}")
        return team

    async def key(self, key_id: str, *, to_change: bool = False) -> Key:
        """Return the key *key_id* as configured or stored. If *to_change* is true, require that it can be changed.

        Raises:
            UnknownEntity, Conflict, StoreUnavailable: under the conditions of `team`.
        """
        directory = await self.look()
        key = directory.written_keys.get(key_id)
        if key is None:
            raise unknown_key(key_id)
        if to_change and directory.is_declared_key(key_id):
            raise _declared(f"The key {key_id!r}")
        return key

    async def write(self, change: Change, audit: AuditEntry) -> None:
        """Write *change* and its audit log entry to the store.

        Raises:
            Conflict, UnknownEntity, StoreUnavailable: under the conditions of `TeamStore.write`.
        """
        self._directory.apply(await self._store.write(change, audit))


async def retried(change: Callable[[], Awaitable[T]]) -> T:
    """Run *change*, which reads, decides and writes, and return its result. Retry after a concurrent change.

    Raises:
        Conflict: if other requests interfered with all `ATTEMPTS` attempts.
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
    """The object is declared in the configuration and can be changed only there."""


class Overtaken(Conflict):
    """Another request changed the object in the meantime, and a retry would not help."""


def unknown_team(name: str, *, param: str | None = None) -> UnknownEntity:
    return UnknownEntity(f"There is no team {name[:100]!r}", param=param)


def unknown_key(key_id: str, *, param: str | None = None) -> UnknownEntity:
    return UnknownEntity(f"There is no key {key_id[:100]!r}", param=param)


def _declared(what: str) -> DeclaredElsewhere:
    return DeclaredElsewhere(f"{what} is declared in the configuration, under teams: it can be changed only there")
