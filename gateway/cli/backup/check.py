"""Consistency check of a store: Are all entries complete and readable, and are references between them valid?"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import cast

from gateway.cli.backup.redis_backup import RedisBackup
from gateway.cli.backup.sqlite_backup import integrity_faults
from gateway.storage.redis_link import RedisLink
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.teams.redis_teams import KEYS, ROUTES, TEAMS, WORKERS
from gateway.tenancy.teams.team_store import Snapshot

MOST = 20
"""Maximum number of problems of one kind to report."""

_LEDGER = (
    (
        "SELECT DISTINCT team FROM usage_sums EXCEPT SELECT team FROM usage_teams",
        "the ledger has usage sums for the team {!r}, which is missing from its list of teams",
    ),
    (
        "SELECT DISTINCT chunk FROM usage_chunk_teams WHERE chunk NOT IN (SELECT id FROM usage_chunks)",
        "the request records of ledger chunk {!r} are missing",
    ),
)


@dataclass(frozen=True, slots=True)
class Rows:
    """Number of team, key and worker entries in a store, including entries that cannot be read."""

    teams: int
    keys: int
    workers: int = 0
    """Number of workers that were added with the admin API."""
    routes: int = 0
    """Number of routes whose weights were set with the admin API."""


def faults_of(snapshot: Snapshot, rows: Rows, declared: Collection[str]) -> list[str]:
    """Return the problems found in the rows. *declared* has the names of the teams in the settings."""
    faults = []
    for what, read, there in (
        ("teams", len(snapshot.teams), rows.teams),
        ("keys", len(snapshot.keys), rows.keys),
        ("workers", len(snapshot.workers), rows.workers),
        ("weights of routes", len(snapshot.routes), rows.routes),
    ):
        if read != there:
            faults.append(f"{there - read} of {there} {what} cannot be read")
    orphans = [
        f"the key {key.id!r} belongs to the team {key.team!r}, which does not exist"
        for key in snapshot.keys.values()
        if key.team not in snapshot.teams and key.team not in declared
    ]
    digests = Counter(key.digest for key in snapshot.keys.values())
    twice = [
        f"the key {key.id!r} has the same secret as another key"
        for key in snapshot.keys.values()
        if digests[key.digest] > 1
    ]
    return [*faults, *_shortened(orphans), *_shortened(twice)]


async def sqlite_faults(file: SqliteFile) -> tuple[Rows, list[str]]:
    """Return the number of entries in the SQLite file, and the problems found in the file and in its ledger."""

    def act(connection: sqlite3.Connection) -> tuple[Rows, list[str]]:
        faults = integrity_faults(connection)
        for query, sentence in _LEDGER:
            faults += _shortened([sentence.format(value) for (value,) in connection.execute(query)])
        (teams,) = connection.execute("SELECT count(*) FROM directory_teams").fetchone()
        (keys,) = connection.execute("SELECT count(*) FROM directory_keys").fetchone()
        (workers,) = connection.execute("SELECT count(*) FROM directory_workers").fetchone()
        (routes,) = connection.execute("SELECT count(*) FROM directory_routes").fetchone()
        return Rows(teams, keys, workers, routes), faults

    return await file.run(act)


async def redis_faults(link: RedisLink, backup: RedisBackup) -> tuple[Rows, list[str]]:
    """Return the number of entries in Redis, and the problems found in its ledger."""
    teams = await link.ask(lambda client: client.hlen(TEAMS))
    keys = await link.ask(lambda client: client.hlen(KEYS))
    workers = await link.ask(lambda client: client.hlen(WORKERS))
    routes = await link.ask(lambda client: client.hlen(ROUTES))
    listed = cast("set[bytes]", await link.ask(lambda client: client.smembers("warmgate:ledger:teams")))
    booked = {name.decode() for name in listed}
    names = [name.decode() for name in await backup.names()]
    ledgers = {team for team, rest in map(_team_and_rest, names) if rest.startswith("ledger:")}
    unlisted = [
        f"the ledger has usage of the team {team!r}, which is missing from its list of teams"
        for team in ledgers - booked
    ]
    return Rows(teams, keys, workers, routes), _shortened(unlisted)


def _team_and_rest(name: str) -> tuple[str, str]:
    """Split the Redis key ``warmgate:{TEAM}:REST`` into team and rest. Both are empty for a key without a team."""
    _, _, tagged = name.partition(":{")
    team, end, rest = tagged.partition("}:")
    return (team, rest) if end else ("", "")


def _shortened(faults: Iterable[str]) -> list[str]:
    found = sorted(faults)
    return found if len(found) <= MOST else [*found[:MOST], f"{len(found) - MOST} more problems of this kind"]
