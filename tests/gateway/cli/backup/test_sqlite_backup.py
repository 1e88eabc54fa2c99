"""Files of backups that are no good; the rest is in test_store.py."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.cli.backup.sqlite_backup import back_up, identity_in, is_empty, restore
from gateway.protocol.errors import StoreUnavailable


def made(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return path


STORE = (
    "CREATE TABLE directory (one INTEGER, revision INTEGER, pepper BLOB)",
    "INSERT INTO directory VALUES (1, 0, x'70')",
    "CREATE TABLE store_identity (one INTEGER, id TEXT, fingerprint TEXT)",
    "CREATE TABLE directory_teams (name TEXT)",
)


def test_what_is_no_store_is_reported(tmp_path: Path) -> None:
    """A later version, one without an identity, another database, a damaged one."""
    cases = {
        made(tmp_path / "newer", "PRAGMA user_version = 9"): "newer has schema version 9, but this Warmgate supports",
        made(tmp_path / "unused", *STORE): "unused is not initialized",
        made(tmp_path / "other", "CREATE TABLE x (y)"): "other is not a backup of a SQLite store: no such table",
    }
    for path, said in cases.items():
        with pytest.raises(StoreUnavailable, match=said):
            identity_in(path)


def test_a_damaged_store_gives_no_backup(tmp_path: Path) -> None:
    """No one should find that out on the day of a restore."""
    path = made(tmp_path / "db", *STORE, "CREATE TABLE big AS SELECT zeroblob(100000) AS x")
    content = bytearray(path.read_bytes())
    content[4096 + 8 : 4096 + 4096] = b"\xff" * 4088
    path.write_bytes(content)
    for with_pepper in (True, False):
        with pytest.raises(StoreUnavailable):
            back_up(path, tmp_path / "backup", with_pepper=with_pepper)

    assert not (tmp_path / "backup").exists()


def test_a_file_is_empty_without_teams_keys_and_usage(tmp_path: Path) -> None:
    """One that is no database is not: somebody may want it."""
    (tmp_path / "text").write_text("something else " * 100)
    full = made(tmp_path / "full", *STORE, "INSERT INTO directory_teams VALUES ('blue')")

    assert [True, True, False, False] == [
        is_empty(path) for path in (tmp_path / "nothing", made(tmp_path / "new", *STORE), full, tmp_path / "text")
    ]


def test_a_restore_leaves_nothing_of_what_was_there(tmp_path: Path) -> None:
    """A journal of the former file would be played over the new one."""
    backup, target = made(tmp_path / "backup", *STORE), tmp_path / "db"
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"db{suffix}").write_text("former")
    restore(backup, target, pepper=b"x")

    assert {"backup", "db"} == {path.name for path in tmp_path.iterdir()}
    with closing(sqlite3.connect(target)) as connection:
        assert [(b"x",)] == connection.execute("SELECT pepper FROM directory").fetchall()
