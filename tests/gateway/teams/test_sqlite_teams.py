import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from gateway.errors import StoreAway
from gateway.ledger.audit import AuditEntry
from gateway.storage.sqlite_file import MEMORY, SqliteFile
from gateway.teams.audit_log import KEPT
from gateway.teams.key import Key
from gateway.teams.sqlite_teams import SqliteTeamStore
from gateway.teams.team import Team
from gateway.teams.team_store import PutKey, PutTeam, Snapshot

AUDIT = AuditEntry(time="2026-11-21T00:00:00.000Z", who="ops", role="owner", action="create", kind="team", id="blue")


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[SqliteFile]:
    file = SqliteFile(tmp_path / "warmgate.db")
    yield file
    await file.aclose()


async def test_it_works_in_memory() -> None:
    """Without a file everything is there, until the process ends."""
    file = SqliteFile(MEMORY)
    store = SqliteTeamStore(file)
    await store.write(PutTeam(Team("blue")), AUDIT)

    assert {"blue": Team("blue")} == (await store.load()).teams
    assert 32 == len(await store.initialize(None))
    await file.aclose()


async def test_what_it_writes_itself_is_told_without_a_wait(file: SqliteFile) -> None:
    """A listener need not look: this one would do so once an hour."""
    store = SqliteTeamStore(file, poll_s=3600.0)
    async with aclosing(store.changes()) as changes, asyncio.timeout(10):
        await anext(changes)
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await store.write(PutTeam(Team("blue")), AUDIT)
        await waiting


async def test_what_somebody_writes_with_other_means_is_seen(file: SqliteFile, tmp_path: Path) -> None:
    """The revision is what is looked at, not a message."""
    store = SqliteTeamStore(file, poll_s=0.01)
    async with aclosing(store.changes()) as changes, asyncio.timeout(10):
        await anext(changes)
        with closing(sqlite3.connect(tmp_path / "warmgate.db", isolation_level=None)) as other:
            other.execute("INSERT INTO directory_teams VALUES ('blue', ?)", (b'{"name":"blue"}',))
            other.execute("UPDATE directory SET revision = revision + 1")
        await anext(changes)

    assert Snapshot(1, {"blue": Team("blue")}, {}) == await store.load()


async def test_others_use_the_file_beside_it(file: SqliteFile) -> None:
    await file.run(lambda connection: connection.execute("CREATE TABLE theirs (x)").fetchall())
    store = SqliteTeamStore(file)
    await store.write(PutTeam(Team("blue")), AUDIT)

    assert [] == await file.run(lambda connection: connection.execute("SELECT * FROM theirs").fetchall())


async def test_a_change_that_is_not_committed_is_not_remembered(file: SqliteFile, tmp_path: Path) -> None:
    """As if the disk were full at the last moment: the next one begins from what the file has."""
    store = SqliteTeamStore(file)
    await store.write(PutTeam(Team("blue")), AUDIT)
    with closing(sqlite3.connect(tmp_path / "warmgate.db", isolation_level=None)) as other:
        other.execute("CREATE TRIGGER full BEFORE INSERT ON directory_audit BEGIN SELECT RAISE(ABORT, 'full'); END")
        with pytest.raises(sqlite3.IntegrityError):
            await store.write(PutKey(Key("ci", "blue", "d")), AUDIT)
        other.execute("DROP TRIGGER full")
    assert Snapshot(1, {"blue": Team("blue")}, {}) == await store.load()

    after = await store.write(PutKey(Key("dev", "blue", "e")), AUDIT)
    assert Snapshot(2, {"blue": Team("blue")}, {"dev": Key("dev", "blue", "e")}) == after


async def test_a_file_that_cannot_be_used_is_a_store_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"no database" * 100)
    file = SqliteFile(tmp_path / "broken.db")
    store = SqliteTeamStore(file)
    with pytest.raises(StoreAway):
        await store.load()
    with pytest.raises(StoreAway):
        await anext(store.changes())
    await file.aclose()


async def test_the_log_keeps_the_newest_entries(file: SqliteFile) -> None:
    store = SqliteTeamStore(file)
    await store.note(AUDIT)
    await store.note(AUDIT)
    # As many more as it takes for the first one to be too old.
    await file.run(lambda connection: connection.execute("UPDATE sqlite_sequence SET seq = ?", (KEPT,)).fetchall())
    await store.note(AUDIT)

    assert [(2,), (KEPT + 1,)] == await file.run(
        lambda connection: connection.execute("SELECT place FROM directory_audit ORDER BY place").fetchall()
    )
