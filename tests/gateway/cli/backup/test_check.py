"""What a check finds; on real stores: test_store.py."""

import sqlite3
from pathlib import Path

import pytest

from gateway.cli.backup.check import MOST, Rows, faults_of, redis_faults, sqlite_faults
from gateway.cli.backup.redis_backup import RedisBackup
from gateway.storage.redis_link import redis_link
from gateway.storage.sqlite_file import MEMORY, SqliteFile
from gateway.tenancy.ledger.sqlite_usage import create
from gateway.tenancy.teams import sqlite_teams
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import Snapshot
from tests.storage import RedisServer


def test_teams_of_the_settings_are_there() -> None:
    snapshot = Snapshot(1, {"blue": Team("blue")}, {"a": Key("a", "blue", "x"), "b": Key("b", "declared", "y")})

    assert [] == faults_of(snapshot, Rows(1, 2), {"declared"})
    assert ["the key 'b' belongs to the team 'declared', which does not exist"] == faults_of(snapshot, Rows(1, 2), ())


def test_rows_that_cannot_be_read_are_counted() -> None:
    """The gateway leaves them out, so they open nothing."""
    expected = ["1 of 3 teams cannot be read", "2 of 2 keys cannot be read", "1 of 1 workers cannot be read"]
    assert expected == faults_of(Snapshot(1, {"a": Team("a"), "b": Team("b")}), Rows(3, 2, 1), ())


def test_many_faults_of_a_kind_are_cut_short() -> None:
    snapshot = Snapshot(1, {}, {f"k{n}": Key(f"k{n}", "gone", str(n)) for n in range(MOST + 5)})
    faults = faults_of(snapshot, Rows(0, MOST + 5), ())

    assert (MOST + 1, "5 more problems of this kind") == (len(faults), faults[-1])


async def test_a_ledger_in_a_file_that_does_not_fit_together_is_reported(tmp_path: Path) -> None:
    def broken(connection: sqlite3.Connection) -> None:
        sqlite_teams.create(connection)
        create(connection)
        connection.execute("INSERT INTO usage_chunk_teams VALUES ('blue', 7)")
        columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(usage_sums)")]
        values = ["red" if name == "team" else 0 for name in columns]
        connection.execute(f"INSERT INTO usage_sums VALUES ({', '.join('?' * len(columns))})", values)

    file = SqliteFile(MEMORY)
    await file.run(broken)
    rows, faults = await sqlite_faults(file)
    await file.aclose()

    assert Rows(0, 0) == rows
    assert [
        "the ledger has usage sums for the team 'red', which is missing from its list of teams",
        "the request records of ledger chunk 7 are missing",
    ] == faults


@pytest.mark.redis
async def test_a_ledger_in_redis_that_does_not_fit_together_is_reported(redis_server: RedisServer) -> None:
    link = redis_link(redis_server.url, timeout_s=30.0)
    with redis_server.client() as client:
        client.sadd("warmgate:ledger:teams", "blue")
        client.hset("warmgate:{blue}:ledger:sums:2026-11-21", "f", "m")
        client.hset("warmgate:{red}:ledger:sums:2026-11-21", "f", "m")
        client.hset("warmgate:{green}:quota:meters", "f", "m")
    rows, faults = await redis_faults(link, RedisBackup(link, wall_clock=lambda: 0.0))
    await link.aclose()

    assert (Rows(0, 0), ["the ledger has usage of the team 'red', which is missing from its list of teams"]) == (
        rows,
        faults,
    )
