"""Records of files and batches in the embedded SQLite store."""

import sqlite3

from gateway.batch.records import Kind, Record
from gateway.storage.sqlite_file import SqliteFile

_TABLES = (
    # AUTOINCREMENT: a later place is a later record.
    "CREATE TABLE IF NOT EXISTS batch_records (place INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT, id TEXT, team TEXT,"
    " due_at REAL, size INTEGER, row BLOB, version INTEGER, UNIQUE (kind, id))",
    "CREATE INDEX IF NOT EXISTS batch_records_team ON batch_records (kind, team, place)",
    "CREATE INDEX IF NOT EXISTS batch_records_due ON batch_records (kind, due_at)",
)
_COLUMNS = "id, team, due_at, size, row, version"


class SqliteRecords:
    """Store of the records of one *kind* in a table of *file*; see `RecordStore`."""

    def __init__(self, file: SqliteFile, kind: Kind) -> None:
        self._file = file
        self._kind = kind

    async def add(self, record: Record, *, max_count: int, max_size: int) -> bool:
        def act(connection: sqlite3.Connection) -> bool:
            _prepare(connection)
            if self._found(connection, record.team, record.id) is not None:
                return True
            query = "SELECT count(*), coalesce(sum(size), 0) FROM batch_records WHERE kind = ? AND team = ?"
            count, size = connection.execute(query, (self._kind, record.team)).fetchone()
            if count + 1 > max_count or size + record.size > max_size:
                return False
            connection.execute(
                f"INSERT INTO batch_records (kind, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608  # literal
                (self._kind, record.id, record.team, record.due_at, record.size, record.row, record.version),
            )
            return True

        return await self._file.run(act)

    async def find(self, team: str, record_id: str) -> Record | None:
        def act(connection: sqlite3.Connection) -> Record | None:
            _prepare(connection)
            return self._found(connection, team, record_id)

        return await self._file.run(act)

    async def page(self, team: str, *, after: str | None, limit: int, newest_first: bool) -> list[Record] | None:
        def act(connection: sqlite3.Connection) -> list[Record] | None:
            _prepare(connection)
            place = 2**62 if newest_first else 0
            if after is not None:
                query = "SELECT place FROM batch_records WHERE kind = ? AND team = ? AND id = ?"
                row = connection.execute(query, (self._kind, team, after)).fetchone()
                if row is None:
                    return None
                (place,) = row
            sign, order = ("<", "DESC") if newest_first else (">", "ASC")
            query = (
                f"SELECT {_COLUMNS} FROM batch_records WHERE kind = ? AND team = ? AND place {sign} ?"  # noqa: S608
                f" ORDER BY place {order} LIMIT ?"
            )
            return [Record(*row) for row in connection.execute(query, (self._kind, team, place, limit))]

        return await self._file.run(act)

    async def put(self, record: Record) -> bool:
        def act(connection: sqlite3.Connection) -> bool:
            _prepare(connection)
            statement = (
                "UPDATE batch_records SET due_at = ?, row = ?, version = ?"
                " WHERE kind = ? AND team = ? AND id = ? AND version = ?"
            )
            values = (record.due_at, record.row, record.version)
            where = (self._kind, record.team, record.id, record.version - 1)
            return connection.execute(statement, (*values, *where)).rowcount == 1

        return await self._file.run(act)

    async def remove(self, team: str, record_id: str) -> bool:
        def act(connection: sqlite3.Connection) -> bool:
            _prepare(connection)
            statement = "DELETE FROM batch_records WHERE kind = ? AND team = ? AND id = ?"
            return connection.execute(statement, (self._kind, team, record_id)).rowcount == 1

        return await self._file.run(act)

    async def due(self, now: float, limit: int) -> list[Record]:
        def act(connection: sqlite3.Connection) -> list[Record]:
            _prepare(connection)
            query = f"SELECT {_COLUMNS} FROM batch_records WHERE kind = ? AND due_at <= ? ORDER BY due_at LIMIT ?"  # noqa: S608
            return [Record(*row) for row in connection.execute(query, (self._kind, now, limit))]

        return await self._file.run(act)

    def _found(self, connection: sqlite3.Connection, team: str, record_id: str) -> Record | None:
        query = f"SELECT {_COLUMNS} FROM batch_records WHERE kind = ? AND team = ? AND id = ?"  # noqa: S608
        row = connection.execute(query, (self._kind, team, record_id)).fetchone()
        return None if row is None else Record(*row)


def _prepare(connection: sqlite3.Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)
