"""Ledger in Redis. All Redis keys of a team share a hash tag, so that one script can settle and write entries.

    warmgate:{TEAM}:ledger:records:DAY    stream of records, field ``r``: a JSON array, in the order of `FIELDS`
    warmgate:{TEAM}:ledger:sums:DAY       hash: JSON array of key, project, model, backend -> measures
    warmgate:{TEAM}:ledger:users:MONTH    hash: ``u`` and end user -> measures; ``n`` and day -> number of new users
    warmgate:{TEAM}:ledger:records        sorted set of the days that have records, all of score 0;
                                          the same for sums, and for users (months)
    warmgate:ledger:teams                 set of all teams that ever had a ledger entry

Measures are little-endian doubles in the order of `Measures`. They hold whole numbers, exact up to 2**53, which is nine
million dollars a day for one key with one model on one worker. A record takes about 220 bytes.

The scripts that settle reservations book with a Lua function from `LUA`. Its arguments are the fields of a
`gateway.tenancy.ledger.redis_booking.LedgerBooking`::

    ledger_book(base, day, record, group, measures, user)

The Redis key `TEAMS` is in a separate cluster slot. A process adds a team to it once, before the team's first booking.
"""

import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import add
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
from redis.asyncio import Redis

from gateway.storage.redis_link import RedisLink
from gateway.tenancy.ledger.cursor import Ordinal, Page, cursor_of, place_of
from gateway.tenancy.ledger.measures import Measures
from gateway.tenancy.ledger.record import FIELDS, UsageRecord
from gateway.tenancy.ledger.redis_booking import MEASURES, base_of
from gateway.tenancy.ledger.usage_store import (
    NEW_USERS_PER_DAY,
    OTHER_USERS,
    Filter,
    Period,
    RecordQuery,
    SumQuery,
    UsageSum,
    group_of,
)

TEAMS = b"warmgate:ledger:teams"
"""Redis set of all teams with ledger entries. The command ``SADD`` adds a team."""

SCANNED = 10_000
"""Maximum number of ledger records to scan for one page. The records are transferred over the network."""
RECORDS = 200
"""Number of ledger records to read in one Redis call, about 50 kB."""
HASHES = 16
"""Number of Redis hashes to read in one call. A hash with 1,000 field combinations takes about 150 kB."""
FORGOTTEN = 100
"""Maximum number of days of one team to remove in one call of `forget`. Redis frees the memory in the background."""

LUA = (
    f"local NEW_USERS_PER_DAY = {NEW_USERS_PER_DAY}\n"
    f"local OTHER_USERS = '{OTHER_USERS}'\n"
    f"local MEASURES = '<{'d' * len(Measures._fields)}'\n"
) + Path(__file__).with_name("book.lua").read_text(encoding="utf-8")
"""Lua code to put in front of a script. It only defines functions."""


class RedisUsage:
    """Usage store in the Redis that *link* connects to. It reads long results in pieces, so that Redis can serve other
    clients in between.
    """

    def __init__(self, link: RedisLink, *, scanned: int = SCANNED) -> None:
        """Create the store. *scanned* is the maximum number of records to scan for one page."""
        self._link = link
        self._scanned = scanned

    async def sums(self, query: SumQuery) -> list[UsageSum]:
        adder = _Adder(query)
        for team in await self._teams(query.of):
            base = base_of(team)
            days = await self._parts(base + b"sums", query.period)
            for i in range(0, len(days), HASHES):
                keys = [base + b"sums:" + day.encode() for day in days[i : i + HASHES]]
                for day, fields in zip(days[i:], await self._hashes(keys), strict=False):
                    adder.add(team, day, fields)
        return adder.sums()

    async def users(self, team: str, month: str, *, most: int = 100, user: str | None = None) -> list[UsageSum]:
        key = b"%busers:%b" % (base_of(team), month.encode())
        if user is None:
            (fields,) = await self._hashes([key])
        else:
            field = b"u" + user.encode()
            value = cast("bytes | None", await self._link.ask(lambda redis: redis.hget(key, field)))
            fields = {} if value is None else {field: value}
        found = [
            (field[1:].decode(), _whole(MEASURES.unpack(value)))
            for field, value in fields.items()
            if field.startswith(b"u")
        ]
        found.sort(key=lambda one: (-one[1].cost_nano, -one[1].requests, one[0]))
        return [UsageSum.from_group({"user": name}, measures) for name, measures in found[:most]]

    async def records(self, query: RecordQuery, *, cursor: str | None = None, most: int = 100) -> Page[UsageRecord]:
        if most < 1:
            raise ValueError("the page size must be at least 1")
        last = None if cursor is None else _Place(*place_of(cursor, tuple[str, Ordinal, Ordinal, str]))
        found: list[UsageRecord] = []
        looked_at = 0
        async for place, raw in self._newest(query, below=last):
            if last is not None and (len(found) == most or looked_at == self._scanned):
                return Page(found, cursor_of(*last))
            record = _record(raw)
            if query.admits(record):
                found.append(record)
            looked_at, last = looked_at + 1, place
        return Page(found, None)

    async def teams(self) -> list[str]:
        names = cast("set[bytes]", await self._link.ask(lambda redis: redis.smembers(TEAMS)))
        return sorted(name.decode() for name in names)

    async def forget(self, *, records_before: str, sums_before: str) -> bool:
        befores = ((b"records", records_before), (b"sums", sums_before), (b"users", sums_before[:7]))
        for team in await self.teams():
            for kind, before in befores:
                index = base_of(team) + kind
                old = await self._between(index, b"-", b"(" + before.encode(), most=FORGOTTEN)
                if old:
                    await self._link.ask(_removal(index, old))
                if len(old) == FORGOTTEN:
                    return True
        return False

    async def _teams(self, of: Filter) -> list[str]:
        return await self.teams() if of.team is None else [of.team]

    async def _parts(self, index: bytes, period: Period) -> list[str]:
        first, last = period.first_day.encode(), period.last_day.encode()
        return [part.decode() for part in await self._between(index, b"[" + first, b"[" + last)]

    async def _between(self, index: bytes, low: bytes, high: bytes, *, most: int = -1) -> list[bytes]:
        found = await self._link.ask(lambda redis: redis.zrangebylex(index, low, high, start=0, num=most))
        return cast("list[bytes]", found)

    async def _hashes(self, keys: Sequence[bytes]) -> list[dict[bytes, bytes]]:
        def ask(redis: Redis) -> Awaitable[list[dict[bytes, bytes]]]:
            pipeline = redis.pipeline(transaction=False)
            for key in keys:
                pipeline.hgetall(key)
            return pipeline.execute()

        return await self._link.ask(ask)

    async def _newest(self, query: RecordQuery, *, below: "_Place | None") -> AsyncIterator[tuple["_Place", bytes]]:
        """Yield the records older than *below* with their sort keys, newest first. They are read day by day and merged
        over all teams.
        """
        days: dict[str, list[str]] = {}
        for team in await self._teams(query.of):
            for day in await self._parts(base_of(team) + b"records", query.period):
                days.setdefault(day, []).append(team)
        for day in sorted(days, reverse=True):
            if below is None or day <= below.day:
                rows = [self._rows(team, day, below) for team in sorted(days[day])]
                async for place, raw in _merged(rows):
                    yield place, raw

    async def _rows(self, team: str, day: str, below: "_Place | None") -> AsyncIterator[tuple["_Place", bytes]]:
        key = b"%brecords:%b" % (base_of(team), day.encode())
        top = b"+" if below is None or below.day != day else below.top_of(team)
        while True:
            rows = await self._link.ask(partial(_backwards, key=key, top=top))
            for place, fields in rows:
                ms, _, number = place.partition(b"-")
                yield _Place(day, int(ms), int(number), team), fields[b"r"]
            if len(rows) < RECORDS:
                return
            top = b"(" + rows[-1][0]


class _Place(NamedTuple):
    """Sort key of a ledger record. The order is latest day first, then latest stream id, then team name."""

    day: str
    ms: int
    number: int
    team: str

    def top_of(self, team: str) -> bytes:
        """Return the stream id of *team* below which the reading continues."""
        return b"%b%d-%d" % (b"" if team > self.team else b"(", self.ms, self.number)


Row = tuple[_Place, bytes]


async def _merged(streams: Iterable[AsyncIterator[Row]]) -> AsyncIterator[Row]:
    """Merge the sorted record streams *streams* of one day into one sorted stream."""
    heads: list[tuple[int, int, str, Row, AsyncIterator[Row]]] = []

    async def collect(stream: AsyncIterator[Row]) -> None:
        row = await anext(stream, None)
        if row is not None:
            heapq.heappush(heads, (-row[0].ms, -row[0].number, row[0].team, row, stream))

    for stream in streams:
        await collect(stream)
    while heads:
        *_, row, stream = heapq.heappop(heads)
        yield row
        await collect(stream)


class _Adder:
    """Sum of stored measures by the groups of a query."""

    def __init__(self, query: SumQuery) -> None:
        self._by = query.by
        self._of = query.of
        self._nothing: tuple[float, ...] = tuple(map(float, Measures()))
        self._sums: dict[tuple[str, ...], tuple[float, ...]] = {} if query.by else {(): self._nothing}
        self._dimensions: dict[bytes, dict[str, str] | None] = {}

    def add(self, team: str, day: str, fields: Mapping[bytes, bytes]) -> None:
        """Add the measures that were recorded for *team* on *day*."""
        of_day = {"month": day[:7], "day": day, "team": team}
        for field, measures in fields.items():
            if field not in self._dimensions:
                self._dimensions[field] = self._admitted(field)
            dimensions = self._dimensions[field]
            if dimensions is not None:
                group = tuple(of_day.get(name) or dimensions.get(name, "") for name in self._by)
                sums = self._sums.get(group, self._nothing)
                self._sums[group] = tuple(map(add, sums, MEASURES.unpack(measures)))

    def sums(self) -> list[UsageSum]:
        return [
            UsageSum.from_group(group_of(self._by, group), _whole(self._sums[group])) for group in sorted(self._sums)
        ]

    def _admitted(self, field: bytes) -> dict[str, str] | None:
        """Return the dimensions encoded in *field*, with empty strings for missing ones, or None if the query excludes
        them.
        """
        key, project, model, backend = msgspec.json.decode(field, type=tuple[str, str | None, str, str | None])
        dimensions = {"key": key, "project": project or "", "model": model, "backend": backend or ""}
        asked = {name: getattr(self._of, name) for name in dimensions}
        return dimensions if all(value in (None, dimensions[name]) for name, value in asked.items()) else None


def _backwards(redis: Redis, *, key: bytes, top: bytes) -> Awaitable[list[tuple[bytes, dict[bytes, bytes]]]]:
    rows = redis.xrevrange(key, max=top, count=RECORDS)
    return cast("Awaitable[list[tuple[bytes, dict[bytes, bytes]]]]", rows)


def _removal(index: bytes, parts: Sequence[bytes]) -> Callable[[Redis], Awaitable[object]]:
    def remove(redis: Redis) -> Awaitable[object]:
        pipeline = redis.pipeline(transaction=False)
        # Not its method `unlink`: that of a cluster client sends at once and has to be awaited. All keys are in one
        # slot.
        pipeline.execute_command("UNLINK", *(index + b":" + part for part in parts))
        pipeline.zrem(index, *parts)
        return pipeline.execute()

    return remove


def _whole(numbers: Iterable[float]) -> Measures:
    return Measures(*map(int, numbers))


def _record(raw: bytes) -> UsageRecord:
    fields = dict(zip(FIELDS, msgspec.json.decode(raw), strict=False))  # a later version may have more fields
    return msgspec.convert(fields, UsageRecord)
