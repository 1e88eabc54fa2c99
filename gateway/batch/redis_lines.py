"""Claims and results of the lines of batches in Redis or Valkey.

All Redis keys of a batch have the hash tag of its team, because the script that stores a result also writes the ledger
of the team.

warmgate:{TEAM}:batch:BATCH:lines       hash: total, completed, failed, and closed if results are ignored
warmgate:{TEAM}:batch:BATCH:claims      hash: line -> owner
warmgate:{TEAM}:batch:BATCH:owners      sorted set of owners, by the end of their leases
warmgate:{TEAM}:batch:BATCH:returned    sorted set of lines whose owners lost their leases
warmgate:{TEAM}:batch:BATCH:results     hash: line -> JSON
warmgate:{TEAM}:batch:BATCH:ranges      hash: worker -> first line and end of its range, separated by a colon

The script `lines_claim.lua` divides the lines as `LineRanges` does.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from redis.asyncio import Redis

from gateway.batch.line_store import BatchRef, LineResult, Progress, decoded, encoded
from gateway.batch.ranges import NO_WORKER
from gateway.storage.redis_link import RedisLink
from gateway.tenancy.ledger import redis_usage
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.redis_booking import booking_of

_BEGIN, _CLAIM, _CLOSE, _FINISH = (
    Path(__file__).with_name(f"lines_{name}.lua").read_text(encoding="utf-8")
    for name in ("begin", "claim", "close", "finish")
)
_FINISH = redis_usage.LUA + _FINISH


class RedisLines:
    """Store of claims and results in the Redis that *link* connects to; see `LineStore`."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def begin(self, batch: BatchRef, total: int) -> None:
        # The ledger entries of its lines must be found. The set of teams is in another cluster slot.
        await self._ask(lambda client: client.sadd(redis_usage.TEAMS, batch.team))
        await self._run(_BEGIN, batch, total)

    async def claim(
        self, batch: BatchRef, owner: str, count: int, *, now: float, until: float, worker: str = NO_WORKER
    ) -> list[int]:
        lines: list[int] = await self._run(_CLAIM, batch, owner, count, now, until, worker)
        return lines

    async def renew(self, batch: BatchRef, owner: str, *, until: float) -> None:
        await self._ask(lambda client: client.zadd(_keys(batch)[2], {owner: until}, xx=True))

    async def finish(self, batch: BatchRef, line: int, result: LineResult, entry: Entry | None = None) -> bool:
        field = "completed" if result.ok else "failed"
        booking = () if entry is None else booking_of(entry)
        return bool(await self._run(_FINISH, batch, line, encoded(result), field, *booking))

    async def close(self, batch: BatchRef) -> None:
        await self._run(_CLOSE, batch)

    async def progress(self, batch: BatchRef) -> Progress | None:
        fields = ["total", "completed", "failed"]
        values: list[bytes | None] = await self._ask(lambda client: client.hmget(_keys(batch)[0], fields))
        return None if values[0] is None else Progress(*(int(value or 0) for value in values))

    async def results(self, batch: BatchRef, start: int, stop: int) -> dict[int, LineResult]:
        lines = range(start, stop)
        if not lines:
            return {}
        values: list[bytes | None] = await self._ask(
            lambda client: client.hmget(_keys(batch)[4], [str(line) for line in lines])
        )
        return {line: decoded(value) for line, value in zip(lines, values, strict=True) if value is not None}

    async def forget(self, batch: BatchRef) -> None:
        await self._ask(lambda client: client.delete(*_keys(batch)))

    async def _run(self, script: str, batch: BatchRef, *arguments: Any) -> Any:
        keys = _keys(batch)
        return await self._ask(lambda client: client.eval(script, len(keys), *keys, *arguments))

    async def _ask(self, query: Callable[[Redis], Any]) -> Any:
        return await self._link.ask(lambda client: cast("Awaitable[Any]", query(client)))


def _keys(batch: BatchRef) -> tuple[str, ...]:
    names = ("lines", "claims", "owners", "returned", "results", "ranges")
    return tuple(f"warmgate:{{{batch.team}}}:batch:{batch.id}:{name}" for name in names)
