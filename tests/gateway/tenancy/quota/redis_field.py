"""One Redis, and gateways that count in it."""

import asyncio
from collections.abc import Callable
from functools import partial

from redis import Redis

from gateway.storage.redis_link import redis_client, redis_link
from gateway.storage.unfit import StoreUnfit
from gateway.tenancy.ledger.record import UsageRecord
from gateway.tenancy.ledger.redis_usage import RedisUsage
from gateway.tenancy.ledger.usage_store import Period, RecordQuery
from gateway.tenancy.quota.limit import Charge, Granted, Limit, Refused
from gateway.tenancy.quota.redis_store import LAST_S, RedisQuotaStore
from gateway.tenancy.quota.share import Policy
from tests.contracts.quota_stage import PATIENCE_S, cancelled, killed
from tests.contracts.redis_quota import CLOSED, CutLink
from tests.gateway.tenancy.quota.examples import NOW, entry
from tests.storage import RedisServer

LEASE_S = 30.0
DAY = Limit("key:ci/tokens_per_day", "period", 1e9)
OPEN = Policy(budget="share")


class Gateway:
    """A store that runs, on a link that can be cut."""

    def __init__(self, field: "Field", policy: Policy, *, lease_s: float, max_waiting: int, last_s: float) -> None:
        self.link = CutLink(redis_client(field.server.url), timeout_s=PATIENCE_S)

        async def verify() -> None:
            if field.lost is not None:
                raise StoreUnfit(str(field.lost), state=field.lost.state)

        self.store = RedisQuotaStore(
            self.link,
            clock=lambda: field.now,
            lease_s=lease_s,
            replicas=3,
            policy=policy,
            verify=verify,
            max_waiting=max_waiting,
            store_clock=(lambda: field.now) if field.is_timed else None,
            last_s=last_s,
        )
        self._running = asyncio.create_task(self.store.run())

    async def sent(self) -> None:
        await until(lambda: not self.store.waiting_entries)

    async def degraded(self, *, is_so: bool) -> None:
        await until(lambda: self.store.is_degraded == is_so)

    async def die(self) -> None:
        """Nothing more of it reaches the store."""
        self.link.is_cut = True
        await killed(self._running)
        await self.link.aclose()

    async def end(self) -> None:
        await cancelled(self._running)
        await self.link.aclose()


class Field:
    """A Redis and gateways before it."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.now = NOW
        self.is_timed = True
        """Time is `now`, and not the clock of Redis."""
        self.lost: StoreUnfit | None = None
        """Fault of the store without identity; None: it has one."""
        self.gateways: list[Gateway] = []

    def gateway(
        self,
        policy: Policy = CLOSED,
        *,
        lease_s: float = LEASE_S,
        max_waiting: int = 1000,
        last_s: float = LAST_S,
    ) -> Gateway:
        gateway = Gateway(self, policy, lease_s=lease_s, max_waiting=max_waiting, last_s=last_s)
        self.gateways.append(gateway)
        return gateway

    async def records(self) -> list[UsageRecord]:
        link = redis_link(self.server.url, timeout_s=PATIENCE_S)
        usage, query = RedisUsage(link), RecordQuery(period=Period("2026-11-18", "2026-11-18"))
        page = await usage.records(query, most=9_000)
        found = list(page.items)
        while page.next is not None:
            page = await usage.records(query, cursor=page.next, most=9_000)
            found += page.items
        await link.aclose()
        return found

    async def booked(self) -> list[str]:
        return sorted(record.request_id for record in await self.records())

    def client(self) -> "Redis":
        return self.server.client()

    def used(self, limit: Limit, team: str = "blue") -> float:
        """Return what is used of a period."""
        with self.client() as client:
            state = client.hget(f"warmgate:{{{team}}}:quota:meters", limit.id)
        assert isinstance(state, bytes)
        return float(state[1:].split()[0])

    def held(self, team: str = "blue") -> int:
        with self.client() as client:
            return int(client.hlen(f"warmgate:{{{team}}}:quota:held"))


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.002)


def tokens(units: float) -> Charge:
    """Return a charge of a limit that is never reached."""
    return Charge(DAY, units, "2026-11-18", 43_200.0)


async def reserve(gateway: Gateway, name: str, *charges: Charge) -> Granted | Refused:
    return await gateway.store.reserve("blue", name, charges, partial(entry, name, outcome="lost"))


def settle(gateway: Gateway, name: str, *charges: Charge) -> None:
    gateway.store.settle("blue", name, charges, partial(entry, name))
