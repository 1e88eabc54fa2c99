"""Ledger in an SQLite file. Records are stored in chunks, and daily sums are written in the same transaction.

usage_chunks      one row for the records of one batch and day, in JSON. One row per record would cost about seven
                  times as much. The row has the id of its first record. Ids are consecutive and start with the day
usage_chunk_teams the chunks that hold records of a team
usage_records     a view with a row for each record and a column for each field, for queries in SQL
usage_sums        a row for each team, day, key, project, model and backend ('' for a missing value)
usage_users       a row for each team, month and end user
usage_new_users   the number of rows that each day added to usage_users
usage_teams       all teams that ever had a ledger entry
"""

import sqlite3
from contextlib import closing

import msgspec
from msgspec import structs

from gateway.storage.sqlite_file import SqliteFile, release_pages
from gateway.tenancy.ledger.cursor import Ordinal, Page, cursor_of, place_of
from gateway.tenancy.ledger.measures import Measures
from gateway.tenancy.ledger.record import FIELDS, UsageRecord
from gateway.tenancy.ledger.sqlite_book import ids_of
from gateway.tenancy.ledger.usage_store import Filter, Period, RecordQuery, SumQuery, UsageSum, group_of

SCANNED = 20_000
"""Maximum number of ledger records to scan for one page, which takes about 20 ms."""
FORGOTTEN = 1_000
"""Maximum number of rows per table (and roughly records) that a call of `forget` removes, taking about 10 ms."""
GIVEN_BACK = 500
"""Number of free pages (2 MB) that one call of `forget` returns to the disk, which takes about 10 ms."""
_COLUMNS = ", ".join(f"json_extract(each.value, '$[{place}]') AS \"{name}\"" for place, name in enumerate(FIELDS))
_MEASURES = ", ".join(Measures._fields)
_SUMMED = ", ".join(f"coalesce(sum({name}), 0)" for name in Measures._fields)

_TABLES = (
    """CREATE TABLE IF NOT EXISTS usage_chunks (id INTEGER PRIMARY KEY, day TEXT NOT NULL, size INTEGER NOT NULL,
    records TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS usage_chunk_teams (team TEXT, chunk INTEGER, PRIMARY KEY (team, chunk))
    WITHOUT ROWID""",
    f"""CREATE VIEW IF NOT EXISTS usage_records AS SELECT chunk.id + each.key AS id, chunk.day AS day, {_COLUMNS}
    FROM usage_chunks AS chunk, json_each(chunk.records) AS each""",  # noqa: S608  # names of columns, from this file
    f"""CREATE TABLE IF NOT EXISTS usage_sums (team TEXT, day TEXT, "key" TEXT, project TEXT, model TEXT, backend TEXT,
    {", ".join(f"{name} INTEGER NOT NULL" for name in Measures._fields)},
    PRIMARY KEY (team, day, "key", project, model, backend)) WITHOUT ROWID""",
    f"""CREATE TABLE IF NOT EXISTS usage_users (team TEXT, month TEXT, "user" TEXT,
    {", ".join(f"{name} INTEGER NOT NULL" for name in Measures._fields)},
    PRIMARY KEY (team, month, "user")) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS usage_new_users (day TEXT, team TEXT, users INTEGER NOT NULL,
    PRIMARY KEY (day, team)) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS usage_teams (team TEXT PRIMARY KEY) WITHOUT ROWID",
)
# S608: these texts contain only column names, from this file and from the types of fields.
_CHUNKS = "SELECT id, records FROM usage_chunks WHERE id BETWEEN ? AND ? ORDER BY id DESC"
# CROSS JOIN fixes the order. In the other order all chunks would be read.
_CHUNKS_OF_TEAM = """
    SELECT chunk.id, chunk.records FROM usage_chunk_teams AS of CROSS JOIN usage_chunks AS chunk ON chunk.id = of.chunk
    WHERE of.chunk BETWEEN ? AND ? AND of.team = ? ORDER BY of.chunk DESC
"""
_OLDEST_CHUNKS = "SELECT id, size FROM usage_chunks WHERE id < ? ORDER BY id LIMIT ?"
_FORGET_CHUNKS = (
    "DELETE FROM usage_chunks WHERE id <= ?",
    "DELETE FROM usage_chunk_teams WHERE team IN (SELECT team FROM usage_teams) AND chunk <= ?",
)
_FORGET = (
    """DELETE FROM usage_sums WHERE (team, day, "key", project, model, backend) IN
        (SELECT team, day, "key", project, model, backend FROM usage_sums
        WHERE team IN (SELECT team FROM usage_teams) AND day < :sums LIMIT :most)""",
    """DELETE FROM usage_users WHERE (team, month, "user") IN
        (SELECT team, month, "user" FROM usage_users
        WHERE team IN (SELECT team FROM usage_teams) AND month < :month LIMIT :most)""",
    """DELETE FROM usage_new_users WHERE (day, team) IN
        (SELECT day, team FROM usage_new_users WHERE day < :sums LIMIT :most)""",
)
_GROUPED = {"month": "substr(day, 1, 7)"}
"""SQL expressions for those dimensions that are not columns of the table usage_sums."""


def create(connection: sqlite3.Connection) -> None:
    """Create the missing ledger tables in the caller's open transaction."""
    for table in _TABLES:
        connection.execute(table)


class _Row(UsageRecord, frozen=True, array_like=True):
    """Ledger record as stored in a chunk: its fields in order, without names."""


_rows = msgspec.json.Decoder(list[_Row]).decode


class SqliteUsage:
    """Usage store in the SQLite file *file*, whose tables must exist. Reads run in the same thread as writes."""

    def __init__(self, file: SqliteFile, *, scanned: int = SCANNED) -> None:
        """Create the store. *scanned* is the maximum number of records to scan for one page."""
        self._file = file
        self._scanned = scanned

    async def sums(self, query: SumQuery) -> list[UsageSum]:
        where, values = _where(query.of, query.period)
        columns = [_GROUPED.get(name, f'"{name}"') for name in query.by]
        select = f"SELECT {_SUMMED} {''.join(', ' + column for column in columns)} FROM usage_sums WHERE {where}"  # noqa: S608
        if columns:
            select += f" GROUP BY {', '.join(columns)} ORDER BY {', '.join(columns)}"
        rows = await self._file.run(lambda connection: connection.execute(select, values).fetchall())
        size = len(Measures._fields)
        return [UsageSum.from_group(group_of(query.by, row[size:]), Measures(*row[:size])) for row in rows]

    async def users(self, team: str, month: str, *, most: int = 100, user: str | None = None) -> list[UsageSum]:
        select = f"""
            SELECT "user", {_MEASURES} FROM usage_users WHERE team = ?1 AND month = ?2 AND (?3 IS NULL OR "user" = ?3)
            ORDER BY cost_nano DESC, requests DESC, "user" LIMIT ?4
        """  # noqa: S608
        values = (team, month, user, most)
        rows = await self._file.run(lambda connection: connection.execute(select, values).fetchall())
        return [UsageSum.from_group({"user": name}, Measures(*measures)) for name, *measures in rows]

    async def records(self, query: RecordQuery, *, cursor: str | None = None, most: int = 100) -> Page[UsageRecord]:
        if most < 1:
            raise ValueError("the page size must be at least 1")
        (below,) = (None,) if cursor is None else place_of(cursor, tuple[Ordinal])
        return await self._file.run(lambda connection: page(connection, query, below, most, self._scanned))

    async def teams(self) -> list[str]:
        select = "SELECT team FROM usage_teams ORDER BY team"
        return [team for (team,) in await self._file.run(lambda connection: connection.execute(select).fetchall())]

    async def forget(self, *, records_before: str, sums_before: str) -> bool:
        def forget(connection: sqlite3.Connection) -> bool:
            before = {"sums": sums_before, "month": sums_before[:7], "most": FORGOTTEN}
            removed = [connection.execute(statement, before).rowcount for statement in _FORGET]
            is_more = _forget_chunks(connection, ids_of(records_before, records_before)[0]) or FORGOTTEN in removed
            return is_more or release_pages(connection, limit=GIVEN_BACK)

        return await self._file.run(forget)


def _where(of: Filter, period: Period) -> tuple[str, list[str]]:
    """Return the SQL condition for rows of the table usage_sums, and its parameters."""
    team = "= ?" if of.team is not None else "IN (SELECT team FROM usage_teams)"
    conditions = [f"team {team}", "day BETWEEN ? AND ?"]
    values = [] if of.team is None else [of.team]
    values += [period.first_day, period.last_day]
    for name in ("key", "project", "model", "backend"):
        value = getattr(of, name)
        if value is not None:
            conditions.append(f'"{name}" = ?')
            values.append(value)
    return " AND ".join(conditions), values


def _forget_chunks(connection: sqlite3.Connection, before: int) -> bool:
    """Delete the oldest chunks with ids below *before*. Return whether more such chunks could remain."""
    oldest = connection.execute(_OLDEST_CHUNKS, (before, FORGOTTEN)).fetchall()
    records = 0
    for number, (chunk, size) in enumerate(oldest, 1):
        records += size
        if records >= FORGOTTEN or number == len(oldest):
            for statement in _FORGET_CHUNKS:
                connection.execute(statement, (chunk,))
            return number < len(oldest) or number == FORGOTTEN
    return False


def page(
    connection: sqlite3.Connection, query: RecordQuery, below: int | None, most: int, scanned: int
) -> Page[UsageRecord]:
    """Return a page of records with ids below *below*. At most *scanned* records of the period and team are scanned."""
    low, high = ids_of(query.period.first_day, query.period.last_day)
    high = high if below is None else min(high, below - 1)
    team = query.of.team
    select, values = (_CHUNKS, (low, high)) if team is None else (_CHUNKS_OF_TEAM, (low, high, team))
    conditions = _conditions(query)
    found: list[UsageRecord] = []
    last = last_found = high
    with closing(connection.execute(select, values)) as chunks:
        for first, text in chunks:
            rows = _rows(text)
            for place in range(min(len(rows) - 1, high - first), -1, -1):
                if not scanned:
                    return Page(found, cursor_of(last))
                scanned -= 1
                last, row = first + place, rows[place]
                if all((getattr(row, name) or "") == value for name, value in conditions) and _is_within(row, query):
                    if len(found) == most:
                        return Page(found, cursor_of(last_found))
                    found.append(UsageRecord(**structs.asdict(row)))
                    last_found = last
    return Page(found, None)


def _conditions(query: RecordQuery) -> list[tuple[str, str]]:
    """Return the record fields by which *query* filters, with the values that the fields must have."""
    asked = {**structs.asdict(query.of), "user": query.user, "outcome": query.outcome, "request_id": query.request_id}
    return [(name, value) for name, value in asked.items() if value is not None]


def _is_within(record: UsageRecord, query: RecordQuery) -> bool:
    return (query.since is None or record.time >= query.since) and (query.until is None or record.time < query.until)
