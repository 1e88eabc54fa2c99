"""Teams, keys, added workers and weights of routes in an SQLite file."""

import asyncio
import secrets
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger.audit import AuditEntry, AuditPage
from gateway.tenancy.ledger.cursor import cursor_of, place_of
from gateway.tenancy.teams import audit_log
from gateway.tenancy.teams.access_records import AccessRecord
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.change_result import ChangeResult, change_result
from gateway.tenancy.teams.identity import Identity, changed, new_identity, pepper_of, without_pepper
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.route_weights import RouteWeights
from gateway.tenancy.teams.rows import Entity, Rows, row_of
from gateway.tenancy.teams.secret import SECRET_BYTES
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import Change, Snapshot

T = TypeVar("T")

POLL_S = 0.2
"""Seconds between two checks for writes by other processes, such as commands. A check reads one page of the file."""

NEWEST = 2**63 - 1
"""Position after all entries in the audit log."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS directory (one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER, pepper BLOB)",
    "INSERT OR IGNORE INTO directory VALUES (1, 0, NULL)",
    "CREATE TABLE IF NOT EXISTS directory_teams (name TEXT PRIMARY KEY, row BLOB) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS directory_keys (name TEXT PRIMARY KEY, row BLOB) WITHOUT ROWID",
    # Older versions ignore the tables of workers, routes and access records, so a file needs no migration for them.
    "CREATE TABLE IF NOT EXISTS directory_workers (name TEXT PRIMARY KEY, row BLOB) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS directory_routes (name TEXT PRIMARY KEY, row BLOB) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS directory_access (name TEXT PRIMARY KEY, row BLOB) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS store_identity (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL,
    fingerprint TEXT NOT NULL)""",
    # AUTOINCREMENT: no position is used twice, so that cursors stay valid.
    "CREATE TABLE IF NOT EXISTS directory_audit (place INTEGER PRIMARY KEY AUTOINCREMENT, entry BLOB)",
)


def create(connection: sqlite3.Connection) -> None:
    """Create the missing tables in the caller's open transaction."""
    for statement in TABLES:
        connection.execute(statement)


class SqliteTeamStore:
    """Store of teams and keys in the SQLite file *file*, which other processes can use at the same time."""

    def __init__(self, file: SqliteFile, *, poll_s: float = POLL_S) -> None:
        self._file = file
        self._poll_s = poll_s
        self._has_tables = False
        self._snapshot: Snapshot | None = None
        self._identity: Identity | None = None
        self._teams, self._keys = Rows(Team), Rows(Key)
        self._workers, self._routes = Rows(AddedWorker), Rows(RouteWeights)
        self._access: Rows[AccessRecord] = Rows(AccessRecord)  # type: ignore[arg-type]  # a union is not a type
        self._written = asyncio.Event()

    @property
    def identity(self) -> Identity | None:
        return self._identity

    async def identify(self, given: bytes | None) -> bytes:
        self._identity, pepper = await self._run(partial(_identified, given=given))
        return pepper

    async def initialize(self, given: bytes | None) -> bytes:

        def act(connection: sqlite3.Connection) -> tuple[Identity | None, bytes]:
            _initialize(connection, given)
            return _identified(connection, given)

        self._identity, pepper = await self._run(act)
        return pepper

    async def load(self) -> Snapshot:
        """Return the content of the store (see `TeamStore.load`). Unchanged content is returned as the same object."""
        snapshot = await self._run(self._load)
        self._snapshot = snapshot
        return snapshot

    async def write(self, change: Change, audit: AuditEntry) -> Snapshot:

        def act(connection: sqlite3.Connection) -> Snapshot:
            result = change_result(change, self._load(connection))
            _write(connection, result)
            _log(connection, audit)
            return result.snapshot

        # Known only after the commit.
        self._snapshot = await self._run(act)
        self._written.set()
        self._written = asyncio.Event()
        return self._snapshot

    async def note(self, audit: AuditEntry) -> None:
        await self._run(lambda connection: _log(connection, audit))

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield after changes (see `TeamStore.changes`). Writes through this object are reported at once."""
        seen: int | None = None
        while True:
            written = self._written
            revision = await self._run(_revision)
            if revision != seen:
                seen = revision
                yield
            await _set_or_after(written, self._poll_s)

    async def audit(self, cursor: str | None = None, *, most: int = 100) -> AuditPage:
        (before,) = (NEWEST,) if cursor is None else place_of(cursor, tuple[audit_log.Ordinal])

        def act(connection: sqlite3.Connection) -> list[tuple[int, bytes]]:
            query = "SELECT place, entry FROM directory_audit WHERE place < ? ORDER BY place DESC LIMIT ?"
            return connection.execute(query, (before, most + 1)).fetchall()

        return audit_log.page_of([(cursor_of(place), row) for place, row in await self._run(act)], most)

    async def _run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        def with_tables(connection: sqlite3.Connection) -> T:
            if not self._has_tables:
                create(connection)
            self._file.check_place()
            return act(connection)

        result = await self._file.run(with_tables)
        self._has_tables = True
        return result

    def _load(self, connection: sqlite3.Connection) -> Snapshot:
        """Read the whole content of the file. This runs in the file's thread, like all uses of a connection."""
        if self._identity is not None and self._identity != (found := _identity(connection)):
            raise changed(found)
        revision, known = _revision(connection), self._snapshot
        if known is not None and known.revision == revision:
            return known
        return Snapshot(
            revision,
            self._teams.read(connection.execute("SELECT name, row FROM directory_teams")),
            self._keys.read(connection.execute("SELECT name, row FROM directory_keys")),
            self._workers.read(connection.execute("SELECT name, row FROM directory_workers")),
            self._routes.read(connection.execute("SELECT name, row FROM directory_routes")),
            self._access.read(connection.execute("SELECT name, row FROM directory_access")),
        )


def _revision(connection: sqlite3.Connection) -> int:
    (revision,) = connection.execute("SELECT revision FROM directory").fetchone()
    assert isinstance(revision, int)
    return revision


def _identity(connection: sqlite3.Connection) -> Identity | None:
    row = connection.execute("SELECT id, fingerprint FROM store_identity").fetchone()
    return None if row is None else Identity(*row)


def _kept_pepper(connection: sqlite3.Connection) -> bytes | None:
    (pepper,) = connection.execute("SELECT pepper FROM directory").fetchone()
    assert pepper is None or isinstance(pepper, bytes)
    return pepper


def _identified(connection: sqlite3.Connection, given: bytes | None) -> tuple[Identity | None, bytes]:
    identity = _identity(connection)
    return identity, pepper_of(identity, given=given, kept=_kept_pepper(connection))


def _initialize(connection: sqlite3.Connection, given: bytes | None) -> None:
    if _identity(connection) is not None:
        return
    pepper = given or _kept_pepper(connection)
    if pepper is None:
        if connection.execute("SELECT 1 FROM directory_keys").fetchone() is not None:
            raise without_pepper()
        pepper = secrets.token_bytes(SECRET_BYTES)
        connection.execute("UPDATE directory SET pepper = ?", (pepper,))
    made = new_identity(pepper)
    connection.execute("INSERT INTO store_identity VALUES (1, ?, ?)", (made.id, made.fingerprint))


def _write(connection: sqlite3.Connection, result: ChangeResult) -> None:
    connection.execute("UPDATE directory SET revision = ?", (result.snapshot.revision,))
    _write_rows(connection, "directory_teams", result.teams)
    _write_rows(connection, "directory_keys", result.keys)
    _write_rows(connection, "directory_workers", result.workers)
    _write_rows(connection, "directory_routes", result.routes)
    _write_rows(connection, "directory_access", result.access)


def _write_rows(connection: sqlite3.Connection, table: str, entities: Mapping[str, Entity | None]) -> None:
    for name, entity in entities.items():
        if entity is None:
            connection.execute(f"DELETE FROM {table} WHERE name = ?", (name,))  # noqa: S608  # a name of ours
        else:
            connection.execute(f"REPLACE INTO {table} VALUES (?, ?)", (name, row_of(entity)))  # noqa: S608


def _log(connection: sqlite3.Connection, audit: AuditEntry) -> None:
    cursor = connection.execute("INSERT INTO directory_audit (entry) VALUES (?)", (audit_log.row_of(audit),))
    assert cursor.lastrowid is not None
    connection.execute("DELETE FROM directory_audit WHERE place <= ?", (cursor.lastrowid - audit_log.KEPT,))


async def _set_or_after(event: asyncio.Event, wait_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await event.wait()
