"""Claims and results of the lines of batches in the embedded SQLite store."""

import sqlite3

from gateway.batch.line_store import BatchRef, LineResult, Progress, decoded, encoded
from gateway.batch.ranges import NO_WORKER, LineRange, LineRanges
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.sqlite_book import book

_TABLES = (
    "CREATE TABLE IF NOT EXISTS batch_lines (batch TEXT PRIMARY KEY, total INTEGER, completed INTEGER, failed INTEGER)"
    " WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS batch_ranges (batch TEXT, worker TEXT, next INTEGER, stop INTEGER,"
    " PRIMARY KEY (batch, worker)) WITHOUT ROWID",
    # An owner of NULL: its lease has ended, and the line must be claimed again.
    "CREATE TABLE IF NOT EXISTS batch_claims (batch TEXT, line INTEGER, owner TEXT, PRIMARY KEY (batch, line))"
    " WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS batch_owners (batch TEXT, owner TEXT, until REAL, PRIMARY KEY (batch, owner))"
    " WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS batch_closed (batch TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS batch_results (batch TEXT, line INTEGER, result BLOB, PRIMARY KEY (batch, line))"
    " WITHOUT ROWID",
)
_IS_OPEN = """
    SELECT 1 FROM batch_lines WHERE batch = ?1 AND NOT EXISTS (SELECT 1 FROM batch_closed WHERE batch = ?1)
"""
_NAMES = ("batch_lines", "batch_ranges", "batch_claims", "batch_owners", "batch_closed", "batch_results")


class SqliteLines:
    """Store of claims and results in tables of *file*, which also has the tables of the ledger; see `LineStore`."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def begin(self, batch: BatchRef, total: int) -> None:
        def act(connection: sqlite3.Connection) -> None:
            _prepare(connection)
            statement = "INSERT OR IGNORE INTO batch_lines (batch, total, completed, failed) VALUES (?, ?, 0, 0)"
            if connection.execute(statement, (batch.id, total)).rowcount:
                _write_ranges(connection, batch.id, [LineRange(NO_WORKER, 0, total)])

        await self._file.run(act)

    async def claim(
        self, batch: BatchRef, owner: str, count: int, *, now: float, until: float, worker: str = NO_WORKER
    ) -> list[int]:
        def act(connection: sqlite3.Connection) -> list[int]:
            _prepare(connection)
            if connection.execute("SELECT 1 FROM batch_lines WHERE batch = ?", (batch.id,)).fetchone() is None:
                return []
            connection.execute("INSERT OR REPLACE INTO batch_owners VALUES (?, ?, ?)", (batch.id, owner, until))
            _release(connection, batch.id, now)
            query = "SELECT line FROM batch_claims WHERE batch = ? AND owner IS NULL ORDER BY line LIMIT ?"
            lines = [line for (line,) in connection.execute(query, (batch.id, count)).fetchall()]
            if len(lines) < count:
                lines += _taken(connection, batch.id, worker, count - len(lines))
            claims = [(batch.id, line, owner) for line in lines]
            connection.executemany("INSERT OR REPLACE INTO batch_claims VALUES (?, ?, ?)", claims)
            return lines

        return await self._file.run(act)

    async def renew(self, batch: BatchRef, owner: str, *, until: float) -> None:
        def act(connection: sqlite3.Connection) -> None:
            _prepare(connection)
            statement = "UPDATE batch_owners SET until = ? WHERE batch = ? AND owner = ?"
            connection.execute(statement, (until, batch.id, owner))

        await self._file.run(act)

    async def finish(self, batch: BatchRef, line: int, result: LineResult, entry: Entry | None = None) -> bool:
        def act(connection: sqlite3.Connection) -> bool:
            _prepare(connection)
            if connection.execute(_IS_OPEN, (batch.id,)).fetchone() is None:
                return False
            row = (batch.id, line, encoded(result))
            if connection.execute("INSERT OR IGNORE INTO batch_results VALUES (?, ?, ?)", row).rowcount == 0:
                return False
            connection.execute("DELETE FROM batch_claims WHERE batch = ? AND line = ?", (batch.id, line))
            statement = "UPDATE batch_lines SET completed = completed + ?, failed = failed + ? WHERE batch = ?"
            connection.execute(statement, (result.ok, not result.ok, batch.id))
            if entry is not None:
                book(connection, [entry])
            return True

        return await self._file.run(act)

    async def close(self, batch: BatchRef) -> None:
        def act(connection: sqlite3.Connection) -> None:
            _prepare(connection)
            connection.execute("INSERT OR IGNORE INTO batch_closed VALUES (?)", (batch.id,))

        await self._file.run(act)

    async def progress(self, batch: BatchRef) -> Progress | None:
        def act(connection: sqlite3.Connection) -> Progress | None:
            _prepare(connection)
            query = "SELECT total, completed, failed FROM batch_lines WHERE batch = ?"
            row = connection.execute(query, (batch.id,)).fetchone()
            return None if row is None else Progress(*row)

        return await self._file.run(act)

    async def results(self, batch: BatchRef, start: int, stop: int) -> dict[int, LineResult]:
        def act(connection: sqlite3.Connection) -> dict[int, LineResult]:
            _prepare(connection)
            query = "SELECT line, result FROM batch_results WHERE batch = ? AND line >= ? AND line < ?"
            return {line: decoded(data) for line, data in connection.execute(query, (batch.id, start, stop))}

        return await self._file.run(act)

    async def forget(self, batch: BatchRef) -> None:
        def act(connection: sqlite3.Connection) -> None:
            _prepare(connection)
            for name in _NAMES:
                connection.execute(f"DELETE FROM {name} WHERE batch = ?", (batch.id,))  # noqa: S608  # literal names

        await self._file.run(act)


def _taken(connection: sqlite3.Connection, batch: str, worker: str, count: int) -> range:
    """Take up to *count* lines that were never claimed."""
    query = "SELECT worker, next, stop FROM batch_ranges WHERE batch = ?"
    ranges = LineRanges([LineRange(*row) for row in connection.execute(query, (batch,)).fetchall()])
    taken = ranges.take(worker, count)
    if taken:
        connection.execute("DELETE FROM batch_ranges WHERE batch = ?", (batch,))
        _write_ranges(connection, batch, ranges.left)
    return taken


def _write_ranges(connection: sqlite3.Connection, batch: str, ranges: list[LineRange]) -> None:
    rows = [(batch, each.worker, each.next, each.stop) for each in ranges]
    connection.executemany("INSERT INTO batch_ranges VALUES (?, ?, ?, ?)", rows)


def _release(connection: sqlite3.Connection, batch: str, now: float) -> None:
    """Take the lines from owners whose leases have ended at *now*."""
    query = "SELECT owner FROM batch_owners WHERE batch = ? AND until <= ?"
    for (owner,) in connection.execute(query, (batch, now)).fetchall():
        connection.execute("UPDATE batch_claims SET owner = NULL WHERE batch = ? AND owner = ?", (batch, owner))
        connection.execute("DELETE FROM batch_owners WHERE batch = ? AND owner = ?", (batch, owner))


def _prepare(connection: sqlite3.Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)
