"""Result of a change to a store, computed before anything is written."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar, assert_never

from gateway.protocol.errors import Conflict, UnknownEntity
from gateway.tenancy.teams.access_records import (
    MAX_GROUPS,
    MAX_REVOCATIONS,
    MAX_USERS,
    AccessRecord,
    ProvisionedGroup,
    ProvisionedUser,
    Revocation,
)
from gateway.tenancy.teams.added_worker import MAX_MODEL_WORKERS, MAX_WORKERS, AddedWorker, name_of
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.route_weights import MAX_ROUTES, RouteWeights
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import (
    Change,
    DeleteKey,
    DeleteRoute,
    DeleteTeam,
    DeleteWorker,
    PutAccess,
    PutKey,
    PutRoute,
    PutTeam,
    PutWorker,
    Snapshot,
)

E = TypeVar("E", Team, Key, AddedWorker, RouteWeights, AccessRecord)

_MOST_RECORDS = (
    (Revocation, MAX_REVOCATIONS, "revocations"),
    (ProvisionedUser, MAX_USERS, "users"),
    (ProvisionedGroup, MAX_GROUPS, "groups"),
)

NO_WORKERS: Mapping[str, AddedWorker | None] = MappingProxyType({})
NO_ROUTES: Mapping[str, RouteWeights | None] = MappingProxyType({})
NO_ACCESS: Mapping[str, AccessRecord | None] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ChangeResult:
    snapshot: Snapshot
    """Content of the store after the change."""
    teams: Mapping[str, Team | None]
    """Teams to write, by name. With the value None, the team is deleted."""
    keys: Mapping[str, Key | None]
    """Keys to write, by id. With the value None, the key is deleted."""
    workers: Mapping[str, AddedWorker | None] = field(default_factory=dict)
    """Workers to write, by `AddedWorker.name`. With the value None, the worker is deleted."""
    routes: Mapping[str, RouteWeights | None] = field(default_factory=dict)
    """Weights of routes to write, by route. With the value None, the weights are deleted."""
    access: Mapping[str, AccessRecord | None] = field(default_factory=dict)
    """Access records to write, by name. With the value None, the record is deleted."""


def change_result(change: Change, snapshot: Snapshot) -> ChangeResult:
    """Return the result of applying *change* to *snapshot*. Takes O(rows).

    Raises:
        UnknownEntity, Conflict: see `TeamStore.write`.
    """
    match change:
        case PutTeam(team, former):
            _check_former("team", team.name, former, snapshot.teams.get(team.name))
            return _result(snapshot, {team.name: team}, {})
        case PutKey(key, former, is_team_declared):
            _check_former("key", key.id, former, snapshot.keys.get(key.id))
            if former is not None and former.team != key.team:
                raise Conflict(
                    f"The key {key.id!r} belongs to the team {former.team!r}. A key cannot move to another team."
                )
            if not is_team_declared and key.team not in snapshot.teams:
                raise UnknownEntity(f"There is no team {key.team!r}", param="team")
            return _result(snapshot, {}, {key.id: key})
        case DeleteTeam(name, with_keys, former):
            _check_deleted("team", name, former, snapshot.teams.get(name))
            keys = [key.id for key in snapshot.keys.values() if key.team == name]
            if keys and not with_keys:
                raise Conflict(
                    f"The team {name!r} has {len(keys)} keys. Delete them first, or delete the team with its keys."
                )
            return _result(snapshot, {name: None}, dict.fromkeys(keys))
        case DeleteKey(key_id, former):
            _check_deleted("key", key_id, former, snapshot.keys.get(key_id))
            return _result(snapshot, {}, {key_id: None})
        case PutWorker() | DeleteWorker() | PutRoute() | DeleteRoute():
            return _serving_result(change, snapshot)
        case PutAccess(records, formers):
            return _access_result(records, formers, snapshot)
        case _:
            assert_never(change)


def _serving_result(change: PutWorker | DeleteWorker | PutRoute | DeleteRoute, snapshot: Snapshot) -> ChangeResult:
    """Return the result of a change of workers or routes."""
    match change:
        case PutWorker(worker):
            check_new(worker, snapshot.workers)
            return _result(snapshot, {}, {}, {worker.name: worker})
        case DeleteWorker(model, worker_id):
            return _result(snapshot, {}, {}, {_present(model, worker_id, snapshot.workers): None})
        case PutRoute(weights):
            if weights.route not in snapshot.routes and len(snapshot.routes) >= MAX_ROUTES:
                raise Conflict(f"{MAX_ROUTES} routes already have weights. Set further weights in the settings.")
            return _result(snapshot, {}, {}, routes={weights.route: weights})
        case DeleteRoute(route):
            if route not in snapshot.routes:
                raise UnknownEntity(f"No weights were set for the route {route[:100]!r}", param="route")
            return _result(snapshot, {}, {}, routes={route: None})
        case _:
            assert_never(change)


def _access_result(
    records: Mapping[str, AccessRecord | None], formers: Mapping[str, AccessRecord | None], snapshot: Snapshot
) -> ChangeResult:
    for name, former in formers.items():
        if snapshot.access.get(name) != former:
            raise Conflict("The object has changed meanwhile. Read it again and repeat your change.")
    changed = {name: record for name, record in records.items() if record is not None or name in snapshot.access}
    result = _result(snapshot, {}, {}, access=changed)
    kinds = {type(record) for record in changed.values()}
    for kind, most, plural in _MOST_RECORDS:
        if kind in kinds and sum(type(record) is kind for record in result.snapshot.access.values()) > most:
            raise Conflict(f"There are {most} {plural}. Delete those that are no longer needed.")
    if any(isinstance(record, ProvisionedUser | ProvisionedGroup) for record in changed.values()):
        _check_unique(changed, result.snapshot.access)
    return result


def _check_unique(changed: Mapping[str, AccessRecord | None], records: Mapping[str, AccessRecord]) -> None:
    """Check that no two people of an issuer have the same user name, and no two groups the same name. O(records)."""
    names = Counter(map(_provisioned_name, records.values()))
    for record in changed.values():
        if record is not None and names[_provisioned_name(record)] > 1:
            if isinstance(record, ProvisionedUser):
                raise Conflict("Another user has the same userName", param="userName")
            if isinstance(record, ProvisionedGroup):
                raise Conflict("Another group has the same displayName", param="displayName")


def _provisioned_name(record: AccessRecord) -> tuple[str, str, str]:
    match record:
        case ProvisionedUser():
            return "user", record.issuer, record.user_name.casefold()
        case ProvisionedGroup():
            return "group", record.issuer, record.display_name.casefold()
        case _:
            return "revocation", record.issuer, record.name


def _check_deleted(kind: str, name: str, former: Team | Key | None, present: Team | Key | None) -> None:
    if present is None:
        raise UnknownEntity(f"There is no {kind} {name!r}")
    if former is not None:
        _check_former(kind, name, former, present)


def _check_former(kind: str, name: str, former: Team | Key | None, present: Team | Key | None) -> None:
    if former == present:
        return
    if former is None:
        raise Conflict(f"A {kind} {name!r} already exists")
    if present is None:
        raise UnknownEntity(f"There is no {kind} {name!r} any more")
    raise Conflict(f"The {kind} {name!r} has changed meanwhile. Read it again and repeat your change.")


def _present(model: str, worker_id: str, workers: Mapping[str, AddedWorker]) -> str:
    """Return the row name of the added worker *worker_id* of *model*. Raise UnknownEntity if it does not exist."""
    name = name_of(model, worker_id)
    if name not in workers:
        raise UnknownEntity(f"No worker {worker_id!r} was added to the model {model!r}", param="worker")
    return name


def check_new(worker: AddedWorker, workers: Mapping[str, AddedWorker]) -> None:
    """Check that *worker* can be added to *workers*, which are the workers added so far, by name.

    Raises:
        Conflict: if the model already has a worker with that address or id, or if too many workers were added.
    """
    of_model = [each for each in workers.values() if each.model == worker.model]
    for each in of_model:
        if each.address == worker.address:
            text = f"The model {worker.model!r} already has the added worker {each.id!r} at that address"
            raise Conflict(text, param="url")
    if worker.name in workers:
        raise Conflict(f"A worker {worker.id!r} was already added to the model {worker.model!r}", param="id")
    if len(of_model) >= MAX_MODEL_WORKERS:
        raise Conflict(
            f"{MAX_MODEL_WORKERS} workers were already added to the model. List further workers in the settings."
        )
    if len(workers) >= MAX_WORKERS:
        raise Conflict(f"{MAX_WORKERS} workers were already added. List further workers in the settings.")


def _result(
    snapshot: Snapshot,
    teams: Mapping[str, Team | None],
    keys: Mapping[str, Key | None],
    workers: Mapping[str, AddedWorker | None] = NO_WORKERS,
    *,
    routes: Mapping[str, RouteWeights | None] = NO_ROUTES,
    access: Mapping[str, AccessRecord | None] = NO_ACCESS,
) -> ChangeResult:
    after = Snapshot(
        snapshot.revision + 1,
        _with(snapshot.teams, teams),
        _with(snapshot.keys, keys),
        _with(snapshot.workers, workers),
        _with(snapshot.routes, routes),
        _with(snapshot.access, access),
    )
    return ChangeResult(after, teams, keys, workers, routes, access)


def _with(entities: Mapping[str, E], changed: Mapping[str, E | None]) -> dict[str, E]:
    return {name: entity for name, entity in {**entities, **changed}.items() if entity is not None}
