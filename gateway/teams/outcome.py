"""What a change comes to, worked out before anything is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar, assert_never

from gateway.errors import Conflict, UnknownEntity
from gateway.teams.added_worker import MAX_MODEL_WORKERS, MAX_WORKERS, AddedWorker, name_of
from gateway.teams.key import Key
from gateway.teams.team import Team
from gateway.teams.team_store import (
    Change,
    DeleteKey,
    DeleteTeam,
    DeleteWorker,
    PutKey,
    PutTeam,
    PutWorker,
    Snapshot,
)

E = TypeVar("E", Team, Key, AddedWorker)

NO_WORKERS: Mapping[str, AddedWorker | None] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Outcome:
    snapshot: Snapshot
    """As it will be."""
    teams: Mapping[str, Team | None]
    """Those that are written, by name; None: deleted."""
    keys: Mapping[str, Key | None]
    """Those that are written, by id; None: deleted."""
    workers: Mapping[str, AddedWorker | None] = field(default_factory=dict)
    """Those that are written, by `AddedWorker.name`; None: deleted."""


def outcome_of(change: Change, snapshot: Snapshot) -> Outcome:
    """What *snapshot* becomes by *change*. O(rows).

    Raises:
        UnknownEntity, Conflict: as `TeamStore.write` has it.
    """
    match change:
        case PutTeam(team, former):
            _check_former("team", team.name, former, snapshot.teams.get(team.name))
            return _outcome(snapshot, {team.name: team}, {})
        case PutKey(key, former, is_team_declared):
            _check_former("key", key.id, former, snapshot.keys.get(key.id))
            if former is not None and former.team != key.team:
                raise Conflict(f"The key {key.id!r} is of the team {former.team!r}, and stays so")
            if not is_team_declared and key.team not in snapshot.teams:
                raise UnknownEntity(f"There is no team {key.team!r}", param="team")
            return _outcome(snapshot, {}, {key.id: key})
        case DeleteTeam(name, with_keys, former):
            _check_deleted("team", name, former, snapshot.teams.get(name))
            keys = [key.id for key in snapshot.keys.values() if key.team == name]
            if keys and not with_keys:
                raise Conflict(f"The team {name!r} has {len(keys)} keys: delete them first, or with it")
            return _outcome(snapshot, {name: None}, dict.fromkeys(keys))
        case DeleteKey(key_id, former):
            _check_deleted("key", key_id, former, snapshot.keys.get(key_id))
            return _outcome(snapshot, {}, {key_id: None})
        case PutWorker(worker):
            check_new(worker, snapshot.workers)
            return _outcome(snapshot, {}, {}, {worker.name: worker})
        case DeleteWorker(model, worker_id):
            return _outcome(snapshot, {}, {}, {_present(model, worker_id, snapshot.workers): None})
        case _:
            assert_never(change)


def _check_deleted(kind: str, name: str, former: Team | Key | None, present: Team | Key | None) -> None:
    if present is None:
        raise UnknownEntity(f"There is no {kind} {name!r}")
    if former is not None:
        _check_former(kind, name, former, present)


def _check_former(kind: str, name: str, former: Team | Key | None, present: Team | Key | None) -> None:
    if former == present:
        return
    if former is None:
        raise Conflict(f"There is a {kind} {name!r} already")
    if present is None:
        raise UnknownEntity(f"There is no {kind} {name!r} any more")
    raise Conflict(f"The {kind} {name!r} has been changed by somebody else meanwhile: look at it again")


def _present(model: str, worker_id: str, workers: Mapping[str, AddedWorker]) -> str:
    """Return the name of the row of that worker."""
    name = name_of(model, worker_id)
    if name not in workers:
        raise UnknownEntity(f"No worker {worker_id!r} was added to the model {model!r}", param="worker")
    return name


def check_new(worker: AddedWorker, workers: Mapping[str, AddedWorker]) -> None:
    """Check that *worker* can stand beside the *workers* that were added, which are by name.

    Raises:
        Conflict: its model has one at that address or of that id, or there are too many.
    """
    of_model = [each for each in workers.values() if each.model == worker.model]
    for each in of_model:
        if each.address == worker.address:
            text = f"The model {worker.model!r} has a worker at that address already: {each.id!r}, which was added"
            raise Conflict(text, param="url")
    if worker.name in workers:
        raise Conflict(f"A worker {worker.id!r} was added to the model {worker.model!r} already", param="id")
    if len(of_model) >= MAX_MODEL_WORKERS:
        raise Conflict(f"{MAX_MODEL_WORKERS} workers were added to the model already: list more in the settings")
    if len(workers) >= MAX_WORKERS:
        raise Conflict(f"{MAX_WORKERS} workers were added already: list more in the settings")


def _outcome(
    snapshot: Snapshot,
    teams: Mapping[str, Team | None],
    keys: Mapping[str, Key | None],
    workers: Mapping[str, AddedWorker | None] = NO_WORKERS,
) -> Outcome:
    after = Snapshot(
        snapshot.revision + 1,
        _with(snapshot.teams, teams),
        _with(snapshot.keys, keys),
        _with(snapshot.workers, workers),
    )
    return Outcome(after, teams, keys, workers)


def _with(entities: Mapping[str, E], changed: Mapping[str, E | None]) -> dict[str, E]:
    return {name: entity for name, entity in {**entities, **changed}.items() if entity is not None}
