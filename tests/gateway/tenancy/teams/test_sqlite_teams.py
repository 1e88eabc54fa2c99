import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.sqlite_file import MEMORY, SqliteFile
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.audit_log import KEPT
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.sqlite_teams import SqliteTeamStore
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import PutKey, PutTeam, Snapshot

AUDIT = AuditEntry(time="2026-11-21T00:00:00.000Z", who="ops", role="owner", action="create", kind="team", id="blue")


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[SqliteFile]:
    file = SqliteFile(tmp_path / "warmgate.db")
    yield file
    await file.aclose()


async def test_it_works_in_memory() -> None:
    """Without a file everything works until the process ends."""
    file = SqliteFile(MEMORY)
    store = SqliteTeamStore(file)
    await store.write(PutTeam(Team("blue")), AUDIT)

    assert {"blue": Team("blue")} == (await store.load()).teams
    assert 32 == len(await store.initialize(None))
    await file.aclose()


async def test_its_own_writes_are_reported_at_once(file: SqliteFile) -> None:
    """The listener does not have to look, which it would do once an hour."""
    store = SqliteTeamStore(file, poll_s=3600.0)
    async with aclosing(store.changes()) as changes, asyncio.timeout(60):
        await anext(changes)
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await store.write(PutTeam(Team("blue")), AUDIT)
        await waiting


async def test_changes_by_other_means_are_seen(file: SqliteFile, tmp_path: Path) -> None:
    """The listener compares the revision and needs no message."""
    store = SqliteTeamStore(file, poll_s=0.01)
    async with aclosing(store.changes()) as changes, asyncio.timeout(60):
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
    """The disk is full at the last moment. The next change starts from the content of the file."""
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


async def test_an_unusable_file_is_an_unavailable_store(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"no database" * 100)
    file = SqliteFile(tmp_path / "broken.db")
    store = SqliteTeamStore(file)
    with pytest.raises(StoreUnavailable):
        await store.load()
    with pytest.raises(StoreUnavailable):
        await anext(store.changes())
    await file.aclose()


async def test_the_log_keeps_the_newest_entries(file: SqliteFile) -> None:
    store = SqliteTeamStore(file)
    await store.note(AUDIT)
    await store.note(AUDIT)
    # Enough entries to make the first one too old.
    await file.run(lambda connection: connection.execute("UPDATE sqlite_sequence SET seq = ?", (KEPT,)).fetchall())
    await store.note(AUDIT)

    assert [(2,), (KEPT + 1,)] == await file.run(
        lambda connection: connection.execute("SELECT place FROM directory_audit ORDER BY place").fetchall()
    )
