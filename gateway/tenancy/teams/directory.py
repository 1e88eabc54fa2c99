"""Directory of all teams and keys, both config-managed and API-managed, and of workers and weights of routes that were
set with the API.

1. The configuration takes precedence. A stored team or key with the same name is ignored.
2. A key without a team is listed, so that it can be deleted, but gives no access.
3. A caller stays the same object as long as its team and its key do not change.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import TypeVar

from gateway.tenancy.teams.access_records import AccessRecord
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.named_rules import NamedRules
from gateway.tenancy.teams.route_weights import RouteWeights
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import Snapshot

T = TypeVar("T")

NOTHING = Snapshot(0)


class Directory:
    """All known teams, keys and added workers. The directory is empty before `declare` or `apply`. If *is_followed* is
    true, it is incomplete until a store was read.
    """

    def __init__(self, *, is_followed: bool = False) -> None:
        self._declared = Declared()
        self._stored = NOTHING
        self._is_behind = is_followed
        self._written_teams: Mapping[str, Team] = {}
        self._written_keys: Mapping[str, Key] = {}
        self._teams: Mapping[str, Team] = {}
        self._keys: Mapping[str, Key] = {}
        self._ids: Mapping[str, str] = {}
        """Key ids by the digests of current and former secrets."""
        self._callers: dict[str, Caller] = {}
        """Callers that were looked up so far, by key id. They are created on demand, because few of many thousand keys
        are in use.
        """
        self._by_digest: dict[str, Caller] = {}
        """Callers that were looked up so far, by the digest of their secrets."""
        self._on_workers: Callable[[Mapping[str, AddedWorker]], None] | None = None
        self._on_routes: Callable[[Mapping[str, RouteWeights]], None] | None = None
        self.generation = 0
        """Number of changes so far. After a change, results that were cached from earlier content are invalid."""

    @property
    def revision(self) -> int:
        """Revision of the latest snapshot of the store, or 0 before the first snapshot."""
        return self._stored.revision

    @property
    def is_behind(self) -> bool:
        """Whether the store could contain teams and keys that are not known in memory, because it was not read yet or
        not recently.
        """
        return self._is_behind

    @property
    def teams(self) -> Mapping[str, Team]:
        """All teams by name, in alphabetical order, with the limit templates and model groups that they name."""
        return self._teams

    @property
    def keys(self) -> Mapping[str, Key]:
        """All keys by id, in alphabetical order, with the limit templates and model groups that they name."""
        return self._keys

    @property
    def written_teams(self) -> Mapping[str, Team]:
        """All teams as they were configured or stored, with the names of limit templates and model groups."""
        return self._written_teams

    @property
    def written_keys(self) -> Mapping[str, Key]:
        """All keys as they were configured or stored, with the names of limit templates and model groups."""
        return self._written_keys

    @property
    def rules(self) -> NamedRules:
        """Limit templates and model groups."""
        return self._declared.rules

    @property
    def workers(self) -> Mapping[str, AddedWorker]:
        """Workers that were added with the API, by `AddedWorker.name`."""
        return self._stored.workers

    def follow_workers(self, on_workers: Callable[[Mapping[str, AddedWorker]], None]) -> None:
        """Call *on_workers* with the added workers now and after each change. *on_workers* must not raise."""
        self._on_workers = on_workers
        on_workers(self._stored.workers)

    @property
    def routes(self) -> Mapping[str, RouteWeights]:
        """Weights of routes that were set with the API, by route name."""
        return self._stored.routes

    @property
    def access(self) -> Mapping[str, AccessRecord]:
        """Records that decide which tokens are accepted, by `AccessRecord.name`."""
        return self._stored.access

    def follow_routes(self, on_routes: Callable[[Mapping[str, RouteWeights]], None]) -> None:
        """Call *on_routes* with the weights of routes now and after each change. *on_routes* must not raise."""
        self._on_routes = on_routes
        on_routes(self._stored.routes)

    def is_declared_team(self, name: str) -> bool:
        """Return whether the team *name* is managed in the configuration."""
        return name in self._declared.teams

    def is_declared_key(self, key_id: str) -> bool:
        """Return whether the key *key_id* is managed in the configuration."""
        return key_id in self._declared.keys

    def caller_of(self, digest: str) -> Caller | None:
        """Return the caller whose current or former secret has *digest*, even if the secret is no longer valid."""
        return self._by_digest.get(digest) or self._found(digest)

    def caller(self, key_id: str) -> Caller | None:
        """Return the caller with the key *key_id*, or None if the key does not exist or has no team."""
        caller = self._callers.get(key_id)
        if caller is None:
            key = self._keys.get(key_id)
            team = None if key is None else self._teams.get(key.team)
            if key is not None and team is not None:
                caller = self._callers[key_id] = Caller(team, key)
        return caller

    def declare(self, declared: Declared) -> None:
        """Replace the teams and keys from the configuration. Takes O(teams + keys)."""
        self._declared = declared
        self._merge()

    def apply(self, snapshot: Snapshot, *, was_emptied: bool = False) -> None:
        """Replace the teams and keys from the store. Takes O(teams + keys).

        A snapshot that is older than the current one was read during a write and is ignored. The exception is a store
        that *was_emptied* and counts from the start.
        """
        self._is_behind = False
        if snapshot is not self._stored and (was_emptied or snapshot.revision >= self._stored.revision):
            former, self._stored = self._stored, snapshot
            self._merge()
            if self._on_workers is not None and snapshot.workers != former.workers:
                self._on_workers(snapshot.workers)
            if self._on_routes is not None and snapshot.routes != former.routes:
                self._on_routes(snapshot.routes)

    def fall_behind(self) -> None:
        """Record that the store cannot be read. All known teams and keys stay valid."""
        self._is_behind = True

    def _merge(self) -> None:
        self.generation += 1
        self._written_teams = _sorted({**self._stored.teams, **self._declared.teams})
        self._written_keys = _sorted({**self._stored.keys, **self._declared.keys})
        self._teams = {name: self.rules.applied_to(team) for name, team in self._written_teams.items()}
        self._keys = {key_id: self.rules.applied_to(key) for key_id, key in self._written_keys.items()}
        self._ids = self._digests()
        self._callers = {key_id: caller for key_id, caller in self._callers.items() if self._is_present(caller)}
        self._by_digest.clear()

    def _is_present(self, caller: Caller) -> bool:
        return caller.key == self._keys.get(caller.key.id) and caller.team == self._teams.get(caller.team.name)

    def _digests(self) -> dict[str, str]:
        # Should two keys have one secret, a config-managed key wins, and a current secret wins over a former one.
        keys = [key for key in self._keys.values() if key.team in self._teams]
        keys.sort(key=lambda key: self.is_declared_key(key.id))
        ids = {former.digest: key.id for key in keys for former in key.all_formers()}
        ids.update((key.digest, key.id) for key in keys)
        return ids

    def _found(self, digest: str) -> Caller | None:
        key_id = self._ids.get(digest)
        caller = None if key_id is None else self.caller(key_id)
        if caller is not None:
            self._by_digest[digest] = caller
        return caller


def _sorted(entities: dict[str, T]) -> dict[str, T]:
    return dict(sorted(entities.items(), key=itemgetter(0)))
