"""Records of files and batches in Redis or Valkey. All Redis keys of a team share one hash tag.

warmgate:{TEAM}:KINDs:rows     hash: id -> version, size, due time and JSON, separated by spaces
warmgate:{TEAM}:KINDs:order    sorted set of ids, by the order in which they were added
warmgate:{TEAM}:KINDs:due      sorted set of ids, by the time at which they are due
warmgate:{TEAM}:KINDs:size     total size of the records
warmgate:KINDs:teams           set of all teams that ever had a record of the kind
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from redis.asyncio import Redis

from gateway.batch.records import Kind, Record
from gateway.storage.redis_link import RedisLink

_ADD, _PUT, _REMOVE = (
    Path(__file__).with_name(f"records_{name}.lua").read_text(encoding="utf-8") for name in ("add", "put", "remove")
)
_CHUNK = 200
"""Number of records to read in one Redis call, about 100 kB."""


class RedisRecords:
    """Store of the records of one *kind* in the Redis that *link* connects to; see `RecordStore`."""

    def __init__(self, link: RedisLink, kind: Kind) -> None:
        self._link = link
        self._kind = kind
        self._teams = f"warmgate:{kind}s:teams"

    async def add(self, record: Record, *, max_count: int, max_size: int) -> bool:
        rows, order, due, size = self._keys(record.team)
        # The set of teams is in another cluster slot, and comes first, so that a record never lacks its team.
        await self._ask(lambda client: client.sadd(self._teams, record.team))
        arguments = (record.id, _value(record), record.due_at, record.size, max_count, max_size)
        return bool(await self._run(_ADD, (rows, order, due, size), arguments))

    async def find(self, team: str, record_id: str) -> Record | None:
        value = await self._ask(lambda client: client.hget(self._keys(team)[0], record_id))
        return None if value is None else _record(team, record_id, value)

    async def page(self, team: str, *, after: str | None, limit: int, newest_first: bool) -> list[Record] | None:
        order = self._keys(team)[1]
        start = 0
        if after is not None:
            rank = await self._ask(
                lambda client: client.zrevrank(order, after) if newest_first else client.zrank(order, after)
            )
            if rank is None:
                return None
            start = rank + 1
        ids: list[bytes] = await self._ask(
            lambda client: client.zrange(order, start, start + limit - 1, desc=newest_first)
        )
        return await self._records(team, ids)

    async def put(self, record: Record) -> bool:
        rows, _, due, _ = self._keys(record.team)
        arguments = (record.id, _value(record), record.due_at, record.version - 1)
        return bool(await self._run(_PUT, (rows, due), arguments))

    async def remove(self, team: str, record_id: str) -> bool:
        return bool(await self._run(_REMOVE, self._keys(team), (record_id,)))

    async def due(self, now: float, limit: int) -> list[Record]:
        found: list[Record] = []
        teams: set[bytes] = await self._ask(lambda client: client.smembers(self._teams))
        for each in sorted(teams):
            team, room = each.decode(), limit - len(found)
            if room <= 0:
                break
            ids = await self._due_ids(self._keys(team)[2], now, room)
            found += await self._records(team, ids)
        return found

    async def _due_ids(self, due: str, now: float, limit: int) -> list[bytes]:
        ids: list[bytes] = await self._ask(lambda client: client.zrangebyscore(due, "-inf", now, 0, limit))
        return ids

    async def _records(self, team: str, ids: Sequence[bytes]) -> list[Record]:
        """Return the records of *team* with the given *ids*. Records that were removed meanwhile are left out."""
        found: list[Record] = []
        for at in range(0, len(ids), _CHUNK):
            values = await self._values(team, ids[at : at + _CHUNK])
            pairs = zip(ids[at : at + _CHUNK], values, strict=True)
            found += [_record(team, each.decode(), value) for each, value in pairs if value is not None]
        return found

    async def _values(self, team: str, ids: Sequence[bytes]) -> list[bytes | None]:
        values: list[bytes | None] = await self._ask(lambda client: client.hmget(self._keys(team)[0], list(ids)))
        return values

    async def _run(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        return await self._ask(lambda client: client.eval(script, len(keys), *keys, *arguments))

    async def _ask(self, query: Callable[[Redis], Any]) -> Any:
        return await self._link.ask(lambda client: cast("Awaitable[Any]", query(client)))

    def _keys(self, team: str) -> tuple[str, str, str, str]:
        base = f"warmgate:{{{team}}}:{self._kind}s:"
        return base + "rows", base + "order", base + "due", base + "size"


def _value(record: Record) -> bytes:
    return b"%d %d %b %b" % (record.version, record.size, repr(record.due_at).encode(), record.row)


def _record(team: str, record_id: str, value: bytes) -> Record:
    version, size, due_at, row = value.split(b" ", 3)
    return Record(record_id, team, float(due_at), int(size), row, int(version))
