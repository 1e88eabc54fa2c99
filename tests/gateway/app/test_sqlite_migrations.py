"""Files of other versions than this one."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.app.mapping.tenancy import store_rules
from gateway.app.sqlite_migrations import MIGRATIONS
from gateway.app.stores import Stores, stores_of
from gateway.settings import build
from gateway.storage.sqlite_file import migrate, schema_version
from gateway.storage.unfit import StoreUnfit
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.team_store import PutWorker

OLD = """
CREATE TABLE directory (one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER, pepper BLOB);
INSERT INTO directory VALUES (1, 2, x'7070707070707070707070707070707070707070707070707070707070707070');
CREATE TABLE directory_teams (name TEXT PRIMARY KEY, row BLOB) WITHOUT ROWID;
INSERT INTO directory_teams VALUES ('blue', '{"name":"blue"}');
CREATE TABLE directory_keys (name TEXT PRIMARY KEY, row BLOB) WITHOUT ROWID;
INSERT INTO directory_keys VALUES ('ci', '{"id":"ci","team":"blue","digest":"dd"}');
CREATE TABLE directory_audit (place INTEGER PRIMARY KEY AUTOINCREMENT, entry BLOB);
CREATE TABLE quota_mark (team TEXT NOT NULL, limit_id TEXT NOT NULL, value REAL NOT NULL, period TEXT NOT NULL,
    ends REAL NOT NULL, PRIMARY KEY (team, limit_id)) WITHOUT ROWID;
"""
"""A file of the version before there were schema versions and identities."""


def stores_at(path: Path, **store: str) -> Stores:
    model = {"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}
    settings = build({"models": [model], "store": {"url": f"sqlite:///{path}", **store}}, {})
    return stores_of(store_rules(settings), wall_clock=lambda: 0.0)


def write(path: Path, statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)
    return path


def version_at(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return schema_version(connection)


async def test_a_file_from_before_there_were_versions_is_brought_forward(tmp_path: Path) -> None:
    """Its teams, keys and pepper are there, and its identity stays the same from then on."""
    path = write(tmp_path / "old.db", OLD)
    identities = []
    for _ in range(2):
        stores = stores_at(path)
        await stores.open()
        assert b"p" * 32 == await stores.identify()
        assert ({"blue"}, {"ci"}) == (set((kept := await stores.teams.load()).teams), set(kept.keys))
        identities.append(stores.teams.identity)
        await stores.aclose()

    assert identities[0] == identities[1] is not None
    assert 1 == version_at(path)


async def test_a_file_of_a_version_without_added_workers_gets_their_table(tmp_path: Path) -> None:
    """Without another schema version: one that does not know the table passes over it."""
    stores = stores_at(path := tmp_path / "warmgate.db")
    await stores.open()
    await stores.aclose()
    write(path, "DROP TABLE directory_workers;")
    stores = stores_at(path)
    await stores.open()
    worker = AddedWorker("tiny", "http://10.0.0.7:8000", "w7")
    audit = AuditEntry(time="2026-11-21T00:00:00.000Z", who="o", role="owner", action="create", kind="worker", id="w7")
    await stores.teams.write(PutWorker(worker), audit)

    assert {"w7 tiny": worker} == (await stores.teams.load()).workers
    await stores.aclose()
    assert 1 == version_at(path)


async def test_a_file_of_a_later_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    """An older gateway would not know what it must not forget."""
    path = write(tmp_path / "new.db", "PRAGMA user_version = 9; CREATE TABLE later (x);")
    stores = stores_at(path)
    for question in (stores.open, stores.identify):
        with pytest.raises(
            StoreUnfit, match="The file has schema version 9, but this Warmgate supports versions up to 1"
        ) as refused:
            await question()
        assert "newer" == refused.value.state
    await stores.aclose()
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()

    assert [("later",)] == tables


async def test_an_old_file_with_keys_of_a_given_pepper_needs_it_again(tmp_path: Path) -> None:
    """The file never had it: without it a second one would be made, under which no key is known."""
    path = write(tmp_path / "old.db", f"{OLD}; UPDATE directory SET pepper = NULL;")
    without, beside = stores_at(path), stores_at(path, pepper="given")
    with pytest.raises(StoreUnfit) as refused:
        await without.open()
    assert "pepper_missing" == refused.value.state
    await beside.open()
    assert b"given" == await beside.identify()
    for stores in (without, beside):
        await stores.aclose()


def test_a_new_file_has_the_latest_version(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS)

    assert len(MIGRATIONS) == version_at(tmp_path / "new.db")
