"""Alerts in the embedded SQLite store, which one gateway uses."""

import sqlite3
from collections.abc import Callable, Sequence

import msgspec

from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.alerts.alert import NewAlert
from gateway.tenancy.alerts.alert_store import MAX_ALERTS, MAX_MARKS, Added, StoredAlert, Waiting

_TABLES = (
    "CREATE TABLE IF NOT EXISTS alert_log (number INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB)",
    "CREATE TABLE IF NOT EXISTS alert_marks (team TEXT, period TEXT, mark TEXT, until REAL,"
    " PRIMARY KEY (team, period, mark)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS alert_marks_until ON alert_marks (until)",
    "CREATE TABLE IF NOT EXISTS alert_receivers (name TEXT PRIMARY KEY, number INTEGER) WITHOUT ROWID",
)
_LAST = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'alert_log'), 0)"


class SqliteAlerts:
    """Store of alerts in *file*; see `AlertStore`. *wall_clock* returns seconds since 1970."""

    def __init__(
        self,
        file: SqliteFile,
        *,
        wall_clock: Callable[[], float],
        max_alerts: int = MAX_ALERTS,
        max_marks: int = MAX_MARKS,
    ) -> None:
        self._file = file
        self._max_alerts = max_alerts
        self._max_marks = max_marks
        self._wall_clock = wall_clock

    async def begin(self, receivers: Sequence[str]) -> None:
        def act(connection: sqlite3.Connection) -> None:
            for statement in _TABLES:
                connection.execute(statement)
            for name in receivers:
                connection.execute(f"INSERT OR IGNORE INTO alert_receivers VALUES (?, ({_LAST}))", (name,))  # noqa: S608

        await self._file.run(act)

    async def add(self, alert: NewAlert) -> Added:
        now, content = self._wall_clock(), alert.alert
        where = (content.team, content.period)

        def act(connection: sqlite3.Connection) -> Added:
            connection.execute("DELETE FROM alert_marks WHERE until <= ?", (now,))
            query = "SELECT 1 FROM alert_marks WHERE team = ? AND period = ? AND mark = ?"
            if connection.execute(query, (*where, alert.mark)).fetchone() is not None:
                return "known"
            if content.scope in {"user", "session"}:
                query = "SELECT count(*) FROM alert_marks WHERE team = ? AND period = ?"
                if connection.execute(query, where).fetchone()[0] >= self._max_marks:
                    return "crowded"
            connection.execute("INSERT INTO alert_marks VALUES (?, ?, ?, ?)", (*where, alert.mark, alert.until))
            connection.execute("INSERT INTO alert_log (body) VALUES (?)", (msgspec.json.encode(content),))
            connection.execute(f"DELETE FROM alert_log WHERE number <= ({_LAST}) - ?", (self._max_alerts,))  # noqa: S608
            return "added"

        return await self._file.run(act)

    async def waiting(self, receiver: str, count: int) -> Waiting:
        def act(connection: sqlite3.Connection) -> Waiting:
            row = connection.execute("SELECT number FROM alert_receivers WHERE name = ?", (receiver,)).fetchone()
            if row is None:
                return Waiting((), 0)
            query = "SELECT number, body FROM alert_log WHERE number > ? ORDER BY number LIMIT ?"
            found = [StoredAlert(*each) for each in connection.execute(query, (row[0], count))]
            return Waiting(found, found[0].number - row[0] - 1 if found else 0)

        return await self._file.run(act)

    async def delivered(self, receiver: str, number: int) -> None:
        def act(connection: sqlite3.Connection) -> None:
            statement = "UPDATE alert_receivers SET number = max(number, ?) WHERE name = ?"
            connection.execute(statement, (number, receiver))

        await self._file.run(act)

    async def claim(self, sender: str, lease_s: float) -> bool:
        """Return true, because only one gateway can open the file."""
        return bool(sender) and lease_s > 0.0
