"""The seam of stores for teams, keys and added workers, with the log of their changes."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gateway.tenancy.ledger.audit import AuditEntry, AuditPage
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.identity import Identity
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Teams, keys and added workers of a store at one moment."""

    revision: int
    """Number of changes. It decreases only when a store was emptied."""
    teams: Mapping[str, Team] = field(default_factory=dict)
    """Teams by name."""
    keys: Mapping[str, Key] = field(default_factory=dict)
    """Keys of all teams, by id."""
    workers: Mapping[str, AddedWorker] = field(default_factory=dict)
    """Workers that were added by the API, by `AddedWorker.name`."""


@dataclass(frozen=True, slots=True)
class PutTeam:
    """Create *team*, or replace *former*, of the same name."""

    team: Team
    former: Team | None = None
    """Required content of the store; None: no team of that name."""


@dataclass(frozen=True, slots=True)
class DeleteTeam:
    name: str
    with_keys: bool = False
    """Delete its keys too; otherwise it must have none."""
    former: Team | None = None
    """Required content of the store; None: any."""


@dataclass(frozen=True, slots=True)
class PutKey:
    """Create *key*, or replace *former*, of the same id and team."""

    key: Key
    former: Key | None = None
    """Required content of the store; None: no key of that id."""
    is_team_declared: bool = False
    """The team is config-managed: the store need not have it."""


@dataclass(frozen=True, slots=True)
class DeleteKey:
    id: str
    former: Key | None = None
    """Required content of the store; None: any. A revocation must not fail because another administrator changed a
    limit."""


@dataclass(frozen=True, slots=True)
class PutWorker:
    """Add *worker*. Its model must not have its id or address yet."""

    worker: AddedWorker


@dataclass(frozen=True, slots=True)
class DeleteWorker:
    """Remove a worker that was added."""

    model: str
    id: str


Change = PutTeam | DeleteTeam | PutKey | DeleteKey | PutWorker | DeleteWorker


class TeamStore(Protocol):
    """A store of teams, shared by all gateways that use it."""

    @property
    def identity(self) -> Identity | None:
        """Identity that `identify` or `initialize` found; None before."""
        ...

    async def identify(self, given: bytes | None) -> bytes:
        """Return the pepper: *given* by the settings, or the store's own. Writes nothing.

        From then on every answer is checked to come from the same store.

        Raises:
            StoreUnfit: the store is not initialized, has another pepper, or is of a later version.
            StoreUnavailable: it cannot be reached.
        """
        ...

    async def initialize(self, given: bytes | None) -> bytes:
        """Do what `identify` does; a store without an identity gets one, and a random pepper if none is *given*.

        A store that has data of a version before there were identities keeps them, and its pepper.

        Raises:
            StoreUnfit: the store is initialized with another pepper, or is of a later version.
            StoreUnavailable: it cannot be reached.
        """
        ...

    async def load(self) -> Snapshot:
        """Return its current content. An unreadable row is left out, and logged. O(rows).

        Raises:
            StoreUnfit: it is not the store that was identified. Known keys stay valid, nothing is written.
            StoreUnavailable: it cannot be reached.
        """
        ...

    async def write(self, change: Change, audit: AuditEntry) -> Snapshot:
        """Carry out *change* and log *audit*, both or neither; return a snapshot that contains it.

        Every gateway sees the change within a second after the return.

        Raises:
            UnknownEntity: the team, key or worker to delete, or the team of a new key, does not exist.
            Conflict: the store differs from *former*, the team has keys, the worker exists, or there are too many.
            StoreUnfit: it is not the store that was identified; nothing was written.
            StoreUnavailable: it cannot be reached. The change may have been carried out.
        """
        ...

    async def note(self, audit: AuditEntry) -> None:
        """Log an action that changes nothing here, such as draining a worker.

        Raises:
            StoreUnavailable: it cannot be reached. The action may have been logged.
        """
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yield at once, and then within half a second after each change of what `load` returns. Never ends.

        Several changes may cause one item.

        Raises:
            StoreUnavailable: it cannot be reached. To continue, call `changes` again.
        """
        ...

    async def audit(self, cursor: str | None = None, *, most: int = 100) -> AuditPage:
        """Return a page of the log, newest first: the first one, or the one behind the page whose `next` is *cursor*.

        Entries keep their places while changes are logged: a walk from page to page sees each older entry once.

        Raises:
            InvalidField: *cursor* is not of this list.
            StoreUnavailable: it cannot be reached.
        """
        ...
