"""Teams and keys in a SQLite file."""

import asyncio
import secrets
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from gateway.ledger.audit import AuditEntry, AuditPage
from gateway.ledger.cursor import cursor_of, place_of
from gateway.storage.sqlite_file import SqliteFile
from gateway.teams import audit_log
from gateway.teams.key import Key
from gateway.teams.outcome import Outcome, outcome_of
from gateway.teams.rows import Rows, row_of
from gateway.teams.secret import SECRET_BYTES
from gateway.teams.team import Team
from gateway.teams.team_store import Change, Snapshot

T = TypeVar("T")

POLL_S = 0.2
"""Between two looks for what another process has written, such as a command; each is one read of one page."""

NEWEST = 2**63 - 1
"""Behind every place in the log."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS directory (one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER, pepper BLOB)",
    "INSERT OR IGNORE INTO directory VALUES (1, 0, NULL)",
    "CREATE TABLE IF NOT EXISTS directory_teams (name TEXT PRIMARY KEY, row BLOB) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS directory_keys (name TEXT PRIMARY KEY, row BLOB) WITHOUT ROWID",
    # AUTOINCREMENT: no place is given twice, so that a cursor stays good.
    "CREATE TABLE IF NOT EXISTS directory_audit (place INTEGER PRIMARY KEY AUTOINCREMENT, entry BLOB)",
)


class SqliteTeamStore:
    """Implements `gateway.teams.team_store.TeamStore` in *file*, which others may use beside it."""

    def __init__(self, file: SqliteFile, *, poll_s: float = POLL_S) -> None:
        self._file = file
        self._poll_s = poll_s
        self._has_tables = False
        self._snapshot: Snapshot | None = None
        self._teams, self._keys = Rows(Team), Rows(Key)
        self._written = asyncio.Event()

    async def pepper(self) -> bytes:
        """See `TeamStore.pepper`."""
        return await self._run(_pepper)

    async def load(self) -> Snapshot:
        """See `TeamStore.load`. The same object as long as nothing has changed."""
        snapshot = await self._run(self._load)
        self._snapshot = snapshot
        return snapshot

    async def write(self, change: Change, audit: AuditEntry) -> Snapshot:
        """See `TeamStore.write`."""

        def act(connection: sqlite3.Connection) -> Snapshot:
            outcome = outcome_of(change, self._load(connection))
            _write(connection, outcome)
            _log(connection, audit)
            return outcome.snapshot

        # Known only when it is committed.
        self._snapshot = await self._run(act)
        self._written.set()
        self._written = asyncio.Event()
        return self._snapshot

    async def note(self, audit: AuditEntry) -> None:
        """See `TeamStore.note`."""
        await self._run(lambda connection: _log(connection, audit))

    async def changes(self) -> AsyncGenerator[None, None]:
        """See `TeamStore.changes`. What this object writes is told at once."""
        seen: int | None = None
        while True:
            written = self._written
            revision = await self._run(_revision)
            if revision != seen:
                seen = revision
                yield
            await _set_or_after(written, self._poll_s)

    async def audit(self, cursor: str | None = None, *, most: int = 100) -> AuditPage:
        """See `TeamStore.audit`."""
        (before,) = (NEWEST,) if cursor is None else place_of(cursor, tuple[audit_log.Ordinal])

        def act(connection: sqlite3.Connection) -> list[tuple[int, bytes]]:
            query = "SELECT place, entry FROM directory_audit WHERE place < ? ORDER BY place DESC LIMIT ?"
            return connection.execute(query, (before, most + 1)).fetchall()

        return audit_log.page_of([(cursor_of(place), row) for place, row in await self._run(act)], most)

    async def _run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        def with_tables(connection: sqlite3.Connection) -> T:
            if not self._has_tables:
                for statement in TABLES:
                    connection.execute(statement)
            return act(connection)

        result = await self._file.run(with_tables)
        self._has_tables = True
        return result

    def _load(self, connection: sqlite3.Connection) -> Snapshot:
        """On the file's own thread, as everything that has a connection."""
        revision, known = _revision(connection), self._snapshot
        if known is not None and known.revision == revision:
            return known
        return Snapshot(
            revision,
            self._teams.read(connection.execute("SELECT name, row FROM directory_teams")),
            self._keys.read(connection.execute("SELECT name, row FROM directory_keys")),
        )


def _revision(connection: sqlite3.Connection) -> int:
    (revision,) = connection.execute("SELECT revision FROM directory").fetchone()
    assert isinstance(revision, int)
    return revision


def _pepper(connection: sqlite3.Connection) -> bytes:
    made = secrets.token_bytes(SECRET_BYTES)
    connection.execute("UPDATE directory SET pepper = ? WHERE pepper IS NULL", (made,))
    (pepper,) = connection.execute("SELECT pepper FROM directory").fetchone()
    assert isinstance(pepper, bytes)
    return pepper


def _write(connection: sqlite3.Connection, outcome: Outcome) -> None:
    connection.execute("UPDATE directory SET revision = ?", (outcome.snapshot.revision,))
    _write_rows(connection, "directory_teams", outcome.teams)
    _write_rows(connection, "directory_keys", outcome.keys)


def _write_rows(connection: sqlite3.Connection, table: str, entities: Mapping[str, Team | Key | None]) -> None:
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
