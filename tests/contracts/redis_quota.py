"""The store in Redis on the stage of the `QuotaStore` contract suite."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from redis.asyncio import Redis

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.redis_link import RedisLink, redis_client
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.redis_usage import RedisUsage
from gateway.tenancy.ledger.usage_store import Period, RecordQuery
from gateway.tenancy.quota.redis_meters import RedisMeters
from gateway.tenancy.quota.redis_store import RedisQuotaStore
from gateway.tenancy.quota.share import Policy
from tests.contracts.quota_stage import NOW, PATIENCE_S, QuotaStage, cancelled, killed
from tests.storage import RedisServer

T = TypeVar("T")

CLOSED = Policy(requests="closed", tokens="closed", concurrent="closed", budget="closed")
"""What is tested here is the store, and never what stands in for it."""

LEASE_S = 30.0

DAY = Period("2026-11-18", "2026-11-18")
"""Day of all entries of the suite."""


class CutLink(RedisLink):
    """One whose gateway may be killed: then nothing more of it reaches the store. Patient, as tests are."""

    is_cut = False
    asked = 0
    """Questions, also those that no one answered."""

    def wait_no_longer_than(self, timeout_s: float) -> None:
        """From now on."""
        self._timeout_s = timeout_s

    async def ask(self, question: Callable[["Redis"], Awaitable[T]]) -> T:
        self.asked += 1
        if self.is_cut:
            raise StoreUnavailable("The gateway is dead")
        return await super().ask(question)


class RedisStage:
    books_lost = True

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.now = NOW
        self._link: CutLink
        self._store: RedisQuotaStore
        self._running: asyncio.Task[None]

    async def begin(self) -> None:
        self._link = CutLink(redis_client(self._server.url), timeout_s=PATIENCE_S)
        self.store = self._store = RedisQuotaStore(
            self._link, clock=lambda: self.now, lease_s=LEASE_S, policy=CLOSED, store_clock=lambda: self.now
        )
        self._running = asyncio.create_task(self.store.run())

    async def advance(self, seconds: float) -> None:
        """Call the store every third of a lease, like a running gateway."""
        others = RedisMeters(self._link, lease_s=LEASE_S, writer="others", now=lambda: self.now)
        until = self.now + seconds
        self.now = max(self.now, until - 3 * LEASE_S)
        while self.now < until:
            self.now = min(self.now + LEASE_S / 3, until)
            for team in await others.teams(self.now):
                await others.tend(team, ())

    async def carried_out(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self._store.waiting_entries:
                await asyncio.sleep(0.001)

    async def booked(self) -> list[Entry]:
        await self.carried_out()
        page = await RedisUsage(self._link).records(RecordQuery(period=DAY), most=10_000)
        return [Entry.from_record(DAY.first_day, record) for record in page.items]

    async def end(self) -> None:
        await self.close()
        await self.begin()

    async def die(self) -> None:
        """What it would say at its end reaches no one."""
        self._link.is_cut = True
        await killed(self._running)
        await self._link.aclose()
        await self.begin()
        await self.advance(LEASE_S + 1.0)

    async def close(self) -> None:
        await cancelled(self._running)
        await self._link.aclose()


@asynccontextmanager
async def redis(request: pytest.FixtureRequest) -> AsyncIterator[QuotaStage]:
    stage = RedisStage(request.getfixturevalue("redis_server"))
    await stage.begin()
    try:
        yield stage
    finally:
        await stage.close()
