"""Claims and results of the lines of batches in Redis or Valkey. All Redis keys of a batch share one hash tag.

warmgate:{BATCH}:lines       hash: total, completed and failed
warmgate:{BATCH}:claims      hash: line -> owner
warmgate:{BATCH}:owners      sorted set of owners, by the end of their leases
warmgate:{BATCH}:returned    sorted set of lines whose owners lost their leases
warmgate:{BATCH}:results     hash: line -> JSON
warmgate:{BATCH}:ranges      hash: worker -> first line and end of its range, separated by a colon

The script `lines_claim.lua` divides the lines as `LineRanges` does.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from redis.asyncio import Redis

from gateway.batch.line_store import LineResult, Progress, decoded, encoded
from gateway.batch.ranges import NO_WORKER
from gateway.storage.redis_link import RedisLink

_BEGIN, _CLAIM, _FINISH = (
    Path(__file__).with_name(f"lines_{name}.lua").read_text(encoding="utf-8") for name in ("begin", "claim", "finish")
)


class RedisLines:
    """Store of claims and results in the Redis that *link* connects to; see `LineStore`."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def begin(self, batch: str, total: int) -> None:
        await self._run(_BEGIN, batch, total)

    async def claim(
        self, batch: str, owner: str, count: int, *, now: float, until: float, worker: str = NO_WORKER
    ) -> list[int]:
        lines: list[int] = await self._run(_CLAIM, batch, owner, count, now, until, worker)
        return lines

    async def renew(self, batch: str, owner: str, *, until: float) -> None:
        await self._ask(lambda client: client.zadd(_keys(batch)[2], {owner: until}, xx=True))

    async def finish(self, batch: str, line: int, result: LineResult) -> bool:
        return bool(await self._run(_FINISH, batch, line, encoded(result), "completed" if result.ok else "failed"))

    async def progress(self, batch: str) -> Progress | None:
        fields = ["total", "completed", "failed"]
        values: list[bytes | None] = await self._ask(lambda client: client.hmget(_keys(batch)[0], fields))
        return None if values[0] is None else Progress(*(int(value or 0) for value in values))

    async def results(self, batch: str, start: int, stop: int) -> dict[int, LineResult]:
        lines = range(start, stop)
        if not lines:
            return {}
        values: list[bytes | None] = await self._ask(
            lambda client: client.hmget(_keys(batch)[4], [str(line) for line in lines])
        )
        return {line: decoded(value) for line, value in zip(lines, values, strict=True) if value is not None}

    async def forget(self, batch: str) -> None:
        await self._ask(lambda client: client.delete(*_keys(batch)))

    async def _run(self, script: str, batch: str, *arguments: Any) -> Any:
        keys = _keys(batch)
        return await self._ask(lambda client: client.eval(script, len(keys), *keys, *arguments))

    async def _ask(self, query: Callable[[Redis], Any]) -> Any:
        return await self._link.ask(lambda client: cast("Awaitable[Any]", query(client)))


def _keys(batch: str) -> tuple[str, ...]:
    names = ("lines", "claims", "owners", "returned", "results", "ranges")
    return tuple(f"warmgate:{{{batch}}}:{name}" for name in names)
