"""Response owners in the embedded SQLite store."""

import sqlite3
from collections.abc import Callable, Mapping

from gateway.models.response_affinity.owners import ResponseOwner, owner_in, row_of
from gateway.storage.sqlite_file import SqliteFile

_TABLES = (
    # AUTOINCREMENT: a later place is a later owner.
    "CREATE TABLE IF NOT EXISTS response_owners"
    " (place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, owner BLOB, until REAL)",
    "CREATE INDEX IF NOT EXISTS response_owners_until ON response_owners (until)",
)


class SqliteOwners:
    """Store of response owners in a table of *file*, for *lifetime_s* seconds and the *most* recent owners.

    *wall_clock* returns seconds since 1970.
    """

    def __init__(
        self, file: SqliteFile, *, lifetime_s: float, wall_clock: Callable[[], float], most: int = 1_000_000
    ) -> None:
        self._file = file
        self._lifetime_s = lifetime_s
        self._wall_clock = wall_clock
        self._most = most
        self._has_tables = False

    async def find(self, digest: str) -> ResponseOwner | None:
        """See `OwnerStore.find`."""

        def act(connection: sqlite3.Connection) -> ResponseOwner | None:
            self._prepare(connection)
            return self._found(connection, digest)

        owner = await self._file.run(act)
        self._has_tables = True
        return owner

    async def keep(self, owners: Mapping[str, ResponseOwner]) -> Mapping[str, ResponseOwner]:
        """See `OwnerStore.keep`."""

        def act(connection: sqlite3.Connection) -> dict[str, ResponseOwner]:
            self._prepare(connection)
            now = self._wall_clock()
            connection.execute("DELETE FROM response_owners WHERE until <= ?", (now,))
            kept: dict[str, ResponseOwner] = {}
            for digest, owner in owners.items():
                earlier = self._found(connection, digest)
                if earlier is not None:
                    kept[digest] = earlier
                    continue
                row = (digest, row_of(owner), now + self._lifetime_s)
                place = connection.execute(
                    "INSERT INTO response_owners (id, owner, until) VALUES (?, ?, ?)", row
                ).lastrowid
                assert place is not None
                connection.execute("DELETE FROM response_owners WHERE place <= ?", (place - self._most,))
            return kept

        kept = await self._file.run(act)
        self._has_tables = True
        return kept

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if not self._has_tables:
            for statement in _TABLES:
                connection.execute(statement)

    def _found(self, connection: sqlite3.Connection, digest: str) -> ResponseOwner | None:
        query = "SELECT owner FROM response_owners WHERE id = ? AND until > ?"
        row = connection.execute(query, (digest, self._wall_clock())).fetchone()
        return None if row is None else owner_in(row[0])
