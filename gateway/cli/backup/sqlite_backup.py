"""Backup and restore of the SQLite file. SQLite's online backup works while a gateway uses the file."""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from gateway.app.sqlite_migrations import MIGRATIONS
from gateway.protocol.errors import StoreUnavailable
from gateway.storage.sqlite_file import BUSY_S, schema_version
from gateway.storage.unfit import StoreUnfit
from gateway.tenancy.teams.identity import Identity

_CONTENT = (
    "directory_teams",
    "directory_keys",
    "directory_workers",
    "directory_routes",
    "directory_access",
    "usage_teams",
)
"""Tables that are empty in an empty store."""


def back_up(source: Path, target: Path, *, with_pepper: bool) -> None:
    """Write a backup of the SQLite file *source* to the new file *target*, which only its owner can read.

    Raises:
        StoreUnavailable: if *source* cannot be read or is damaged.
        OSError: if *target* exists already or cannot be written.
    """
    if not source.is_file():
        raise StoreUnavailable(f"The file {source.name} does not exist")
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(sqlite3.connect(source, timeout=BUSY_S)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
            new.execute("PRAGMA journal_mode=DELETE")
            if not with_pepper:
                new.execute("PRAGMA secure_delete=ON")
                new.execute("UPDATE directory SET pepper = NULL")
                new.commit()
                new.execute("VACUUM")
        identity_in(target)
    except sqlite3.DatabaseError as fault:
        target.unlink()
        raise StoreUnavailable(f"The SQLite file {source.name} cannot be used: {fault}") from None
    except BaseException:
        target.unlink()
        raise


def identity_in(path: Path) -> tuple[Identity, bytes | None]:
    """Check the integrity of the SQLite file at *path*, and return the identity and the pepper in it.

    Raises:
        StoreUnavailable: if the file is damaged or is not a store.
        StoreUnfit: if a later version of Warmgate wrote the file, or no gateway has used it.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            faults = integrity_faults(connection)
            if faults:
                raise StoreUnavailable(f"The file {path.name} is damaged: {faults[0]}")
            version = schema_version(connection)
            if version > len(MIGRATIONS):
                text = (
                    f"The file {path.name} has schema version {version}, but this Warmgate supports versions up to "
                    f"{len(MIGRATIONS)}"
                )
                raise StoreUnfit(f"{text}. Use a later Warmgate", state="newer")
            row = connection.execute("SELECT id, fingerprint FROM store_identity").fetchone()
            (pepper,) = connection.execute("SELECT pepper FROM directory").fetchone()
    except sqlite3.DatabaseError as fault:
        raise StoreUnavailable(f"The file {path.name} is not a backup of a SQLite store: {fault}") from None
    if row is None:
        raise StoreUnfit(
            f"The file {path.name} is not initialized, because no gateway has used it", state="uninitialized"
        )
    return Identity(*row), pepper


def integrity_faults(connection: sqlite3.Connection) -> list[str]:
    """Return the problems that SQLite's integrity check finds in the file."""
    found = [str(text) for (text,) in connection.execute("PRAGMA integrity_check(10)")]
    return [] if found == ["ok"] else found


def is_empty(path: Path) -> bool:
    """Return whether there is no file at *path*, or a file without teams, keys, added workers and usage."""
    if not path.exists():
        return True
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            tables = [name for name in _CONTENT if name in known]
            return not any(connection.execute(f"SELECT 1 FROM {name}").fetchone() for name in tables)  # noqa: S608
    except sqlite3.DatabaseError:
        return False  # a file that SQLite cannot read is treated as data


def restore(backup: Path, target: Path, *, pepper: bytes | None) -> None:
    """Replace the file *target* with *backup*. If *pepper* is not None, store it in the file.

    No gateway may be using *target*.

    Raises:
        StoreUnavailable: if *target* cannot be written, for example because the disk is full.
        OSError: if *target* cannot be replaced.
    """
    made = target.with_name(f"{target.name}.restored")
    made.unlink(missing_ok=True)
    os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(sqlite3.connect(backup)) as old, closing(sqlite3.connect(made)) as new:
            old.backup(new)
            if pepper is not None:
                new.execute("UPDATE directory SET pepper = ?", (pepper,))
                new.commit()
        for suffix in ("-wal", "-shm"):
            target.with_name(target.name + suffix).unlink(missing_ok=True)
        made.rename(target)
    except sqlite3.DatabaseError as fault:
        raise StoreUnavailable(f"The file {target.name} cannot be written: {fault}") from None
    finally:
        with suppress(OSError):
            made.unlink()
