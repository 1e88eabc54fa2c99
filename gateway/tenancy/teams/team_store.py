"""Interface of stores for teams, keys, added workers and weights of routes, with the audit log of changes."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gateway.tenancy.ledger.audit import AuditEntry, AuditPage
from gateway.tenancy.teams.access_records import AccessRecord
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.identity import Identity
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.route_weights import RouteWeights
from gateway.tenancy.teams.team import Team


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Content of a store at one moment."""

    revision: int
    """Number of changes so far. It decreases only if a store was emptied."""
    teams: Mapping[str, Team] = field(default_factory=dict)
    """Teams in the store, by name."""
    keys: Mapping[str, Key] = field(default_factory=dict)
    """Keys of all teams in the store, by id."""
    workers: Mapping[str, AddedWorker] = field(default_factory=dict)
    """Workers that were added with the API, by `AddedWorker.name`."""
    routes: Mapping[str, RouteWeights] = field(default_factory=dict)
    """Weights of routes that were set with the API, by route name."""
    access: Mapping[str, AccessRecord] = field(default_factory=dict)
    """Records that decide which tokens are accepted, by `AccessRecord.name`."""


@dataclass(frozen=True, slots=True)
class PutTeam:
    """Change: create the team *team*, or replace the team *former* with the same name."""

    team: Team
    former: Team | None = None
    """Team that the store must contain before the change, or None if it must not contain a team with that name."""


@dataclass(frozen=True, slots=True)
class DeleteTeam:
    name: str
    with_keys: bool = False
    """Whether to delete the keys of the team, too. Otherwise, the team must have no keys."""
    former: Team | None = None
    """Team that the store must contain before the change, or None if any content is accepted."""


@dataclass(frozen=True, slots=True)
class PutKey:
    """Change: create the key *key*, or replace the key *former* with the same id and team."""

    key: Key
    former: Key | None = None
    """Key that the store must contain before the change, or None if it must not contain a key with that id."""
    is_team_declared: bool = False
    """Whether the team is managed in the configuration, so that the store does not have to contain it."""


@dataclass(frozen=True, slots=True)
class DeleteKey:
    id: str
    former: Key | None = None
    """Key that the store must contain before the change, or None if any content is accepted. A revocation must not fail
    because another administrator changed a limit.
    """


@dataclass(frozen=True, slots=True)
class PutWorker:
    """Change: add the worker *worker*. Its model must not have a worker with the same id or address yet."""

    worker: AddedWorker


@dataclass(frozen=True, slots=True)
class DeleteWorker:
    """Change: remove a worker that was added with the API."""

    model: str
    id: str


@dataclass(frozen=True, slots=True)
class PutRoute:
    """Change: set the weights of a route, or replace those that were set before."""

    weights: RouteWeights


@dataclass(frozen=True, slots=True)
class DeleteRoute:
    """Change: remove the weights of a route, so that those in the settings apply again."""

    route: str


@dataclass(frozen=True, slots=True)
class PutAccess:
    """Change: write or delete access records, all or none."""

    records: Mapping[str, AccessRecord | None]
    """Records to write, by name. With the value None, the record is deleted."""
    formers: Mapping[str, AccessRecord | None] = field(default_factory=dict)
    """Records that the store must contain before the change, by name. With the value None, the store must not contain
    the record. For other names, any content is accepted.
    """


Change = PutTeam | DeleteTeam | PutKey | DeleteKey | PutWorker | DeleteWorker | PutRoute | DeleteRoute | PutAccess


class TeamStore(Protocol):
    """Store of teams and keys that several gateways can share."""

    @property
    def identity(self) -> Identity | None:
        """Identity that `identify` or `initialize` found, or None before that."""
        ...

    async def identify(self, given: bytes | None) -> bytes:
        """Return the pepper, which is either *given* from the settings or read from the store. Writes nothing.

        From then on, every answer is checked to come from the same store.

        Raises:
            StoreUnfit: if the store is not initialized, has another pepper, or was written by a later version.
            StoreUnavailable: if the store cannot be reached.
        """
        ...

    async def initialize(self, given: bytes | None) -> bytes:
        """Identify the store in the same way as `identify`, and initialize it if it has no identity. If no pepper is
        *given*, a random pepper is stored.

        A store with data from a version without identities keeps its data and its pepper.

        Raises:
            StoreUnfit: if the store is initialized with another pepper, or was written by a later version.
            StoreUnavailable: if the store cannot be reached.
        """
        ...

    async def load(self) -> Snapshot:
        """Return the current content of the store. Unreadable rows are omitted and logged. Takes O(rows).

        Raises:
            StoreUnfit: if it is not the store that was identified. Known keys stay valid, and nothing is written.
            StoreUnavailable: if the store cannot be reached.
        """
        ...

    async def write(self, change: Change, audit: AuditEntry) -> Snapshot:
        """Apply *change* and log *audit*, both or neither. Return a snapshot that contains the change.

        Every gateway sees the change within a second after this call returns.

        Raises:
            UnknownEntity: if the team, key, worker or weights to delete, or the team of a new key, do not exist.
            Conflict: if the store differs from *former*, the team has keys, the worker exists, or there are too many
                workers or routes.
            StoreUnfit: if it is not the store that was identified. Nothing was written then.
            StoreUnavailable: if the store cannot be reached. The change may have been carried out.
        """
        ...

    async def note(self, audit: AuditEntry) -> None:
        """Log an action that does not change the store, such as the draining of a worker.

        Raises:
            StoreUnavailable: if the store cannot be reached. The action may have been logged.
        """
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yield at once, and then within half a second after each change of the content that `load` returns. The
        iterator never ends.

        Several changes may cause one item.

        Raises:
            StoreUnavailable: if the store cannot be reached. To continue, call `changes` again.
        """
        ...

    async def audit(self, cursor: str | None = None, *, most: int = 100) -> AuditPage:
        """Return a page of the audit log, newest entries first. *cursor* is the `next` value of the previous page, or
        None for the first page.

        Entries keep their positions while changes are logged, so that paging returns each older entry once.

        Raises:
            InvalidField: if *cursor* does not belong to this list.
            StoreUnavailable: if the store cannot be reached.
        """
        ...
