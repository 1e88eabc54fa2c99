"""A record to vary, and the two stores with their ways to book."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs
from redis.asyncio import Redis

from gateway.storage.redis_link import redis_link
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger import redis_usage, sqlite_book, sqlite_usage
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.record import UsageRecord
from gateway.tenancy.ledger.redis_booking import booking_of
from gateway.tenancy.ledger.redis_usage import RedisUsage
from gateway.tenancy.ledger.sqlite_usage import SqliteUsage
from gateway.tenancy.ledger.usage_store import UsageStore
from tests.storage import PATIENCE_S, RedisServer

A_RECORD = UsageRecord(
    time="2026-11-21T08:00:00.000Z",
    request_id="req-1",
    team="blue",
    project=None,
    key="ci",
    user=None,
    model_asked="small",
    model="tiny",
    backend="w1",
    outcome="ok",
    status=200,
    prompt_tokens=100,
    cached_tokens=60,
    completion_tokens=20,
    cost_usd=0.001,
    saved_usd=0.0004,
    fell_back=False,
    ttft_ms=31.5,
    duration_ms=250.0,
)

Book = Callable[[Sequence[Entry]], Awaitable[None]]


@dataclass
class Ledger:
    """A store, and how quota stores write into it."""

    usage: UsageStore
    book: Book


def a_record(**changes: Any) -> UsageRecord:
    return structs.replace(A_RECORD, **changes)


def an_entry(day: str = "2026-11-21", **changes: Any) -> Entry:
    return Entry.from_record(day, a_record(**changes))


@asynccontextmanager
async def sqlite_ledger(*, scanned: int = sqlite_usage.SCANNED) -> AsyncIterator[Ledger]:
    file = SqliteFile(Path(":memory:"))
    await file.run(sqlite_usage.create)

    async def book(entries: Sequence[Entry]) -> None:
        await file.run(lambda connection: sqlite_book.book(connection, entries))

    yield Ledger(SqliteUsage(file, scanned=scanned), book)
    await file.aclose()


@asynccontextmanager
async def redis_ledger(server: RedisServer, *, scanned: int = redis_usage.SCANNED) -> AsyncIterator[Ledger]:
    link = redis_link(server.url, timeout_s=PATIENCE_S)
    script = f"{redis_usage.LUA}\nledger_book(unpack(ARGV))\nledger_write()"

    async def book(entries: Sequence[Entry]) -> None:
        for entry in entries:
            await link.ask(partial(_add_team, team=entry.record.team))
            await link.ask(partial(_evaluate, script=script, arguments=booking_of(entry)))

    yield Ledger(RedisUsage(link, scanned=scanned), book)
    await link.aclose()


def _add_team(redis: "Redis", *, team: str) -> Awaitable[object]:
    return redis.sadd(redis_usage.TEAMS, team)


def _evaluate(redis: "Redis", *, script: str, arguments: Sequence[bytes]) -> Awaitable[object]:
    return redis.eval(script, 0, *arguments)
