"""All teams and keys in memory: those that the settings declare, and those that a store keeps; and added workers.

1. What is declared wins: a stored team or key of the same name is as if it were not there.
2. A key without its team is listed, so that it can be deleted, and opens nothing.
3. A caller stays the same object for as long as its team and its key stay as they are.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import TypeVar

from gateway.teams.added_worker import AddedWorker
from gateway.teams.caller import Caller
from gateway.teams.declared import Declared
from gateway.teams.key import Key
from gateway.teams.team import Team
from gateway.teams.team_store import Snapshot

T = TypeVar("T")

NOTHING = Snapshot(0)


class Directory:
    """Empty until something is declared or taken. With *is_followed* a store must be heard before it is complete."""

    def __init__(self, *, is_followed: bool = False) -> None:
        self._declared = Declared()
        self._stored = NOTHING
        self._is_behind = is_followed
        self._teams: Mapping[str, Team] = {}
        self._keys: Mapping[str, Key] = {}
        self._ids: Mapping[str, str] = {}
        """Of keys, by present and former digests."""
        self._callers: dict[str, Caller] = {}
        """Those that were asked for, by id: of ten thousand keys few are in use."""
        self._by_digest: dict[str, Caller] = {}
        """The same, by the digests that were asked for."""
        self._on_workers: Callable[[Mapping[str, AddedWorker]], None] | None = None
        self.generation = 0
        """Grows with every change: what was worked out in another one may be wrong."""

    @property
    def revision(self) -> int:
        """Of the snapshot that was taken last; 0: none was."""
        return self._stored.revision

    @property
    def is_behind(self) -> bool:
        """Whether the store may have teams and keys that are not known here: it was not heard yet, or not lately."""
        return self._is_behind

    @property
    def teams(self) -> Mapping[str, Team]:
        """By name, in the order of names."""
        return self._teams

    @property
    def keys(self) -> Mapping[str, Key]:
        """By id, in the order of ids."""
        return self._keys

    @property
    def workers(self) -> Mapping[str, AddedWorker]:
        """Workers that were added by the API, by `AddedWorker.name`."""
        return self._stored.workers

    def follow_workers(self, on_workers: Callable[[Mapping[str, AddedWorker]], None]) -> None:
        """Call *on_workers*, which must not fail, with the added workers whenever they change, and now."""
        self._on_workers = on_workers
        on_workers(self._stored.workers)

    def is_declared_team(self, name: str) -> bool:
        """Whether it can be changed in the settings only."""
        return name in self._declared.teams

    def is_declared_key(self, key_id: str) -> bool:
        """Whether it can be changed in the settings only."""
        return key_id in self._declared.keys

    def caller_of(self, digest: str) -> Caller | None:
        """Whose secret has *digest*, or had it before the last rotation, whether or not it still counts."""
        return self._by_digest.get(digest) or self._found(digest)

    def caller(self, key_id: str) -> Caller | None:
        """The caller with the key *key_id*; None: there is no such key, or it has no team."""
        caller = self._callers.get(key_id)
        if caller is None:
            key = self._keys.get(key_id)
            team = None if key is None else self._teams.get(key.team)
            if key is not None and team is not None:
                caller = self._callers[key_id] = Caller(team, key)
        return caller

    def declare(self, declared: Declared) -> None:
        """Have these teams and keys from the settings from this moment on, and no others. O(teams + keys)."""
        self._declared = declared
        self._merge()

    def take(self, snapshot: Snapshot, *, was_emptied: bool = False) -> None:
        """Have these teams and keys from the store from this moment on, and no others. O(teams + keys).

        An older snapshot than the present one was on its way while a change was written: it is passed over, unless the
        store *was_emptied* and counts anew.
        """
        self._is_behind = False
        if snapshot is not self._stored and (was_emptied or snapshot.revision >= self._stored.revision):
            former, self._stored = self._stored, snapshot
            self._merge()
            if self._on_workers is not None and snapshot.workers != former.workers:
                self._on_workers(snapshot.workers)

    def fall_behind(self) -> None:
        """The store is not heard any more. What is known of it stays."""
        self._is_behind = True

    def _merge(self) -> None:
        self.generation += 1
        self._teams = _sorted({**self._stored.teams, **self._declared.teams})
        self._keys = _sorted({**self._stored.keys, **self._declared.keys})
        self._ids = self._digests()
        self._callers = {key_id: caller for key_id, caller in self._callers.items() if self._is_present(caller)}
        self._by_digest.clear()

    def _is_present(self, caller: Caller) -> bool:
        return caller.key == self._keys.get(caller.key.id) and caller.team == self._teams.get(caller.team.name)

    def _digests(self) -> dict[str, str]:
        # Should two keys have one secret, the declared one has it; and a present one before a former one.
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
