"""Claims and results of the lines of batches in the embedded SQLite store."""

import sqlite3

from gateway.batch.line_store import LineResult, Progress, decoded, encoded
from gateway.storage.sqlite_file import SqliteFile

_TABLES = (
    "CREATE TABLE IF NOT EXISTS batch_lines (batch TEXT PRIMARY KEY, total INTEGER, next INTEGER, completed INTEGER,"
    " failed INTEGER) WITHOUT ROWID",
    # An owner of NULL: its lease has ended, and the line must be claimed again.
    "CREATE TABLE IF NOT EXISTS batch_claims (batch TEXT, line INTEGER, owner TEXT, PRIMARY KEY (batch, line))"
    " WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS batch_owners (batch TEXT, owner TEXT, until REAL, PRIMARY KEY (batch, owner))"
    " WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS batch_results (batch TEXT, line INTEGER, result BLOB, PRIMARY KEY (batch, line))"
    " WITHOUT ROWID",
)
_NAMES = ("batch_lines", "batch_claims", "batch_owners", "batch_results")


class SqliteLines:
    """Store of claims and results in tables of *file*; see `LineStore`."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def begin(self, batch: str, total: int) -> None:
        def act(connection: sqlite3.Connection) -> None:
            _prepare(connection)
            connection.execute("INSERT OR IGNORE INTO batch_lines VALUES (?, ?, 0, 0, 0)", (batch, total))

        await self._file.run(act)

    async def claim(self, batch: str, owner: str, count: int, *, now: float, until: float) -> list[int]:
        def act(connection: sqlite3.Connection) -> list[int]:
            _prepare(connection)
            row = connection.execute("SELECT total, next FROM batch_lines WHERE batch = ?", (batch,)).fetchone()
            if row is None:
                return []
            connection.execute("INSERT OR REPLACE INTO batch_owners VALUES (?, ?, ?)", (batch, owner, until))
            _release(connection, batch, now)
            query = "SELECT line FROM batch_claims WHERE batch = ? AND owner IS NULL ORDER BY line LIMIT ?"
            lines = [line for (line,) in connection.execute(query, (batch, count)).fetchall()]
            total, following = row
            fresh = range(following, min(total, following + count - len(lines)))
            lines += fresh
            connection.execute("UPDATE batch_lines SET next = ? WHERE batch = ?", (following + len(fresh), batch))
            claims = [(batch, line, owner) for line in lines]
            connection.executemany("INSERT OR REPLACE INTO batch_claims VALUES (?, ?, ?)", claims)
            return lines

        return await self._file.run(act)

    async def renew(self, batch: str, owner: str, *, until: float) -> None:
        def act(connection: sqlite3.Connection) -> None:
            _prepare(connection)
            statement = "UPDATE batch_owners SET until = ? WHERE batch = ? AND owner = ?"
            connection.execute(statement, (until, batch, owner))

        await self._file.run(act)

    async def finish(self, batch: str, line: int, result: LineResult) -> bool:
        def act(connection: sqlite3.Connection) -> bool:
            _prepare(connection)
            if connection.execute("SELECT 1 FROM batch_lines WHERE batch = ?", (batch,)).fetchone() is None:
                return False
            row = (batch, line, encoded(result))
            if connection.execute("INSERT OR IGNORE INTO batch_results VALUES (?, ?, ?)", row).rowcount == 0:
                return False
            connection.execute("DELETE FROM batch_claims WHERE batch = ? AND line = ?", (batch, line))
            statement = "UPDATE batch_lines SET completed = completed + ?, failed = failed + ? WHERE batch = ?"
            connection.execute(statement, (result.ok, not result.ok, batch))
            return True

        return await self._file.run(act)

    async def progress(self, batch: str) -> Progress | None:
        def act(connection: sqlite3.Connection) -> Progress | None:
            _prepare(connection)
            query = "SELECT total, completed, failed FROM batch_lines WHERE batch = ?"
            row = connection.execute(query, (batch,)).fetchone()
            return None if row is None else Progress(*row)

        return await self._file.run(act)

    async def results(self, batch: str, start: int, stop: int) -> dict[int, LineResult]:
        def act(connection: sqlite3.Connection) -> dict[int, LineResult]:
            _prepare(connection)
            query = "SELECT line, result FROM batch_results WHERE batch = ? AND line >= ? AND line < ?"
            return {line: decoded(data) for line, data in connection.execute(query, (batch, start, stop))}

        return await self._file.run(act)

    async def forget(self, batch: str) -> None:
        def act(connection: sqlite3.Connection) -> None:
            _prepare(connection)
            for name in _NAMES:
                connection.execute(f"DELETE FROM {name} WHERE batch = ?", (batch,))  # noqa: S608  # literal names

        await self._file.run(act)


def _release(connection: sqlite3.Connection, batch: str, now: float) -> None:
    """Take the lines from owners whose leases have ended at *now*."""
    query = "SELECT owner FROM batch_owners WHERE batch = ? AND until <= ?"
    for (owner,) in connection.execute(query, (batch, now)).fetchall():
        connection.execute("UPDATE batch_claims SET owner = NULL WHERE batch = ? AND owner = ?", (batch, owner))
        connection.execute("DELETE FROM batch_owners WHERE batch = ? AND owner = ?", (batch, owner))


def _prepare(connection: sqlite3.Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)
