"""The seam behind which teams, keys and added workers are kept, with the log of who changed them."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gateway.ledger.audit import AuditEntry, AuditPage
from gateway.teams.added_worker import AddedWorker
from gateway.teams.identity import Identity
from gateway.teams.key import Key
from gateway.teams.team import Team


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a store keeps of teams, keys and added workers, as it was at one moment."""

    revision: int
    """Counts changes; 0: there was none. It goes down only when a store was emptied."""
    teams: Mapping[str, Team] = field(default_factory=dict)
    """By name."""
    keys: Mapping[str, Key] = field(default_factory=dict)
    """By id, of all teams."""
    workers: Mapping[str, AddedWorker] = field(default_factory=dict)
    """Workers that were added by the API, by `AddedWorker.name`."""


@dataclass(frozen=True, slots=True)
class PutTeam:
    """Make *team*, or replace *former* by it, of the same name."""

    team: Team
    former: Team | None = None
    """What the store must have at that moment; None: no team of that name."""


@dataclass(frozen=True, slots=True)
class DeleteTeam:
    name: str
    with_keys: bool = False
    """Its keys too; otherwise it must have none."""
    former: Team | None = None
    """What the store must have at that moment; None: whatever it has."""


@dataclass(frozen=True, slots=True)
class PutKey:
    """Make *key*, or replace *former* by it, of the same id and team."""

    key: Key
    former: Key | None = None
    """What the store must have at that moment; None: no key of that id."""
    is_team_declared: bool = False
    """The team is one of the settings: the store need not have it."""


@dataclass(frozen=True, slots=True)
class DeleteKey:
    id: str
    former: Key | None = None
    """What the store must have at that moment; None: whatever it has become meanwhile, as a revocation must not fail
    because somebody changed a limit.
    """


@dataclass(frozen=True, slots=True)
class PutWorker:
    """Add *worker*, whose id and address its model must not have yet."""

    worker: AddedWorker


@dataclass(frozen=True, slots=True)
class DeleteWorker:
    """Remove a worker that was added."""

    model: str
    id: str


Change = PutTeam | DeleteTeam | PutKey | DeleteKey | PutWorker | DeleteWorker


class TeamStore(Protocol):
    """Shared by all gateways that are given the same one."""

    @property
    def identity(self) -> Identity | None:
        """Identity that `identify` or `initialize` found; None before."""
        ...

    async def identify(self, given: bytes | None) -> bytes:
        """Return the pepper: *given* by the settings, or the store's own. Writes nothing.

        From then on every answer is checked to come from the same store.

        Raises:
            StoreUnfit: the store is not initialized, has another pepper, or is of a later version.
            StoreAway: it cannot be reached.
        """
        ...

    async def initialize(self, given: bytes | None) -> bytes:
        """Do what `identify` does; a store without an identity gets one, and a random pepper if none is *given*.

        A store that has data of a version before there were identities keeps them, and its pepper.

        Raises:
            StoreUnfit: the store is initialized with another pepper, or is of a later version.
            StoreAway: it cannot be reached.
        """
        ...

    async def load(self) -> Snapshot:
        """What it keeps at this moment. A row that cannot be read is left out, and logged. O(rows).

        Raises:
            StoreUnfit: it is not the store that was identified; known keys go on counting, nothing is written.
            StoreAway: it cannot be reached.
        """
        ...

    async def write(self, change: Change, audit: AuditEntry) -> Snapshot:
        """Carry out *change* and log *audit*, both or neither; the snapshot has it.

        When this returns, every gateway sees it within a second.

        Raises:
            UnknownEntity: the team, key or worker to be deleted, or the team of a new key, is not there.
            Conflict: the store has something else than *former*, or the team has keys, or the worker is there already,
                or there are too many.
            StoreUnfit: it is not the store that was identified; nothing was written.
            StoreAway: it cannot be reached. The change may have been carried out.
        """
        ...

    async def note(self, audit: AuditEntry) -> None:
        """Log what changed nothing here, such as that a worker is drained.

        Raises:
            StoreAway: it cannot be reached. It may have been logged.
        """
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Something, at once, and then within half a second after each change of what `load` returns.

        Several changes may come as one. Ends never.

        Raises:
            StoreAway: it cannot be reached; whoever goes on listening asks for changes anew.
        """
        ...

    async def audit(self, cursor: str | None = None, *, most: int = 100) -> AuditPage:
        """The log, newest first: the first page, or the one behind that whose `next` is *cursor*.

        While changes are logged, older entries keep their places: a walk from page to page sees each of them once.

        Raises:
            InvalidField: *cursor* is none of this list.
            StoreAway: it cannot be reached.
        """
        ...
