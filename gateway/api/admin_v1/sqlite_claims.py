"""Records of idempotent requests in the SQLite store."""

import sqlite3
from collections.abc import Callable

from gateway.api.admin_v1.claims import LIFETIME_S, Claim
from gateway.storage.sqlite_file import SqliteFile

_TABLE = "CREATE TABLE IF NOT EXISTS claims (id TEXT PRIMARY KEY, body TEXT, made TEXT, until REAL) WITHOUT ROWID"


def create(connection: sqlite3.Connection) -> None:
    """Create the table of request records if it does not exist."""
    connection.execute(_TABLE)


class SqliteClaims:
    """Implementation of `Claims` with a table in *file*. *wall_clock* returns seconds since 1970."""

    def __init__(self, file: SqliteFile, *, wall_clock: Callable[[], float]) -> None:
        self._file = file
        self._wall_clock = wall_clock

    async def find(self, claim_id: str) -> Claim | None:
        def act(connection: sqlite3.Connection) -> Claim | None:
            return self._kept(connection, claim_id)

        return await self._file.run(act)

    async def take(self, claim: Claim) -> Claim:
        def act(connection: sqlite3.Connection) -> Claim:
            kept = self._kept(connection, claim.id)
            if kept is None:
                row = (claim.id, claim.body, claim.made, self._wall_clock() + LIFETIME_S)
                connection.execute("INSERT INTO claims VALUES (?, ?, ?, ?)", row)
            return kept or claim

        return await self._file.run(act)

    async def release(self, claim_id: str) -> None:
        def act(connection: sqlite3.Connection) -> None:
            connection.execute(_TABLE)
            connection.execute("DELETE FROM claims WHERE id = ?", (claim_id,))

        await self._file.run(act)

    def _kept(self, connection: sqlite3.Connection, claim_id: str) -> Claim | None:
        """Return the request record with the given ID, or None. Expired records are deleted first."""
        connection.execute(_TABLE)
        connection.execute("DELETE FROM claims WHERE until <= ?", (self._wall_clock(),))
        row = connection.execute("SELECT id, body, made FROM claims WHERE id = ?", (claim_id,)).fetchone()
        return None if row is None else Claim(*row)
