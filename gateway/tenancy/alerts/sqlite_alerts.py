"""Alerts in the embedded SQLite store, which one gateway uses."""

import sqlite3
from collections.abc import Callable, Sequence

from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.alerts.alert_store import MAX_ALERTS, MAX_MARKS, Added, NewEntry, StoredAlert, Waiting

_TABLES = (
    "CREATE TABLE IF NOT EXISTS {name}_log (number INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB)",
    "CREATE TABLE IF NOT EXISTS {name}_marks (team TEXT, period TEXT, mark TEXT, until REAL,"
    " PRIMARY KEY (team, period, mark)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS {name}_marks_until ON {name}_marks (until)",
    "CREATE TABLE IF NOT EXISTS {name}_receivers (name TEXT PRIMARY KEY, number INTEGER) WITHOUT ROWID",
)
_LAST = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{name}_log'), 0)"


class SqliteAlerts:
    """Store of alerts in *file*; see `AlertStore`. *wall_clock* returns seconds since 1970. Stores with another *name*
    hold other messages in tables of their own.
    """

    def __init__(
        self,
        file: SqliteFile,
        *,
        wall_clock: Callable[[], float],
        name: str = "alert",
        max_alerts: int = MAX_ALERTS,
        max_marks: int = MAX_MARKS,
    ) -> None:
        self._file = file
        self._name = name
        self._last = _LAST.format(name=name)
        self._max_alerts = max_alerts
        self._max_marks = max_marks
        self._wall_clock = wall_clock

    async def begin(self, receivers: Sequence[str]) -> None:
        def act(connection: sqlite3.Connection) -> None:
            for statement in _TABLES:
                connection.execute(statement.format(name=self._name))
            for receiver in receivers:
                statement = f"INSERT OR IGNORE INTO {self._name}_receivers VALUES (?, ({self._last}))"  # noqa: S608
                connection.execute(statement, (receiver,))

        await self._file.run(act)

    async def add(self, alert: NewEntry) -> Added:
        now, where = self._wall_clock(), (alert.team, alert.period)
        log, marks = f"{self._name}_log", f"{self._name}_marks"

        def act(connection: sqlite3.Connection) -> Added:
            connection.execute(f"DELETE FROM {marks} WHERE until <= ?", (now,))  # noqa: S608
            query = f"SELECT 1 FROM {marks} WHERE team = ? AND period = ? AND mark = ?"  # noqa: S608
            if connection.execute(query, (*where, alert.mark)).fetchone() is not None:
                return "known"
            if alert.is_by_caller:
                query = f"SELECT count(*) FROM {marks} WHERE team = ? AND period = ?"  # noqa: S608
                if connection.execute(query, where).fetchone()[0] >= self._max_marks:
                    return "crowded"
            connection.execute(f"INSERT INTO {marks} VALUES (?, ?, ?, ?)", (*where, alert.mark, alert.until))  # noqa: S608
            connection.execute(f"INSERT INTO {log} (body) VALUES (?)", (alert.body,))  # noqa: S608
            connection.execute(f"DELETE FROM {log} WHERE number <= ({self._last}) - ?", (self._max_alerts,))  # noqa: S608
            return "added"

        return await self._file.run(act)

    async def waiting(self, receiver: str, count: int) -> Waiting:
        def act(connection: sqlite3.Connection) -> Waiting:
            query = f"SELECT number FROM {self._name}_receivers WHERE name = ?"  # noqa: S608
            row = connection.execute(query, (receiver,)).fetchone()
            if row is None:
                return Waiting((), 0)
            query = f"SELECT number, body FROM {self._name}_log WHERE number > ? ORDER BY number LIMIT ?"  # noqa: S608
            found = [StoredAlert(*each) for each in connection.execute(query, (row[0], count))]
            return Waiting(found, found[0].number - row[0] - 1 if found else 0)

        return await self._file.run(act)

    async def delivered(self, receiver: str, number: int) -> None:
        def act(connection: sqlite3.Connection) -> None:
            statement = f"UPDATE {self._name}_receivers SET number = max(number, ?) WHERE name = ?"  # noqa: S608
            connection.execute(statement, (number, receiver))

        await self._file.run(act)

    async def claim(self, sender: str, lease_s: float) -> bool:
        """Return true, because only one gateway can open the file."""
        return bool(sender) and lease_s > 0.0
