"""Quotas of several gateways before one Redis: what is carried out in the background, and what becomes of outages."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial

import pytest
from redis import Redis

from gateway.errors import StoreAway
from gateway.ledger.record import UsageRecord
from gateway.ledger.redis_usage import RedisUsage
from gateway.ledger.usage_store import Period, RecordQuery
from gateway.quota.limit import Charge, Granted, Limit, Refused
from gateway.quota.redis_store import LAST_S, RedisQuotaStore
from gateway.quota.share import Policy
from gateway.storage.redis_link import redis_client, redis_link
from gateway.storage.unfit import StoreUnfit, lost, replaced
from tests.contracts.quota_stage import PATIENCE_S, cancelled, killed
from tests.contracts.redis_quota import CLOSED, CutLink
from tests.gateway.quota.examples import NOW, SLOTS, TOKENS, entry, usd
from tests.storage import RedisServer

pytestmark = pytest.mark.redis

LEASE_S = 30.0
DAY = Limit("key:ci/tokens_per_day", "period", 1e9)
OPEN = Policy(budget="share")


class Gateway:
    """A store that runs, on a link that can be cut."""

    def __init__(self, field: "Field", policy: Policy, *, lease_s: float, most_waiting: int, last_s: float) -> None:
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
            most_waiting=most_waiting,
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
        """By `now`, and not by the clock of Redis."""
        self.lost: StoreUnfit | None = None
        """It has no identity."""
        self.gateways: list[Gateway] = []

    def gateway(
        self,
        policy: Policy = CLOSED,
        *,
        lease_s: float = LEASE_S,
        most_waiting: int = 1000,
        last_s: float = LAST_S,
    ) -> Gateway:
        gateway = Gateway(self, policy, lease_s=lease_s, most_waiting=most_waiting, last_s=last_s)
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
        """Of a period."""
        with self.client() as client:
            state = client.hget(f"warmgate:{{{team}}}:quota:meters", limit.id)
        assert isinstance(state, bytes)
        return float(state[1:].split()[0])

    def held(self, team: str = "blue") -> int:
        with self.client() as client:
            return int(client.hlen(f"warmgate:{{{team}}}:quota:held"))


@pytest.fixture
async def field(redis_server: RedisServer) -> AsyncIterator[Field]:
    field = Field(redis_server)
    try:
        yield field
    finally:
        for gateway in field.gateways:
            with suppress(AssertionError):
                await gateway.die()


@pytest.fixture
def durable(field: Field, durable_redis_server: RedisServer) -> Field:
    """Its Redis keeps what it answered when it is killed."""
    field.server = durable_redis_server
    return field


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.002)


def tokens(units: float) -> Charge:
    """Of a day whose limit is out of sight: what is counted is what was used."""
    return Charge(DAY, units, "2026-11-18", 43_200.0)


async def reserve(gateway: Gateway, name: str, *charges: Charge) -> Granted | Refused:
    return await gateway.store.reserve("blue", name, charges, partial(entry, name, outcome="lost"))


def settle(gateway: Gateway, name: str, *charges: Charge) -> None:
    gateway.store.settle("blue", name, charges, partial(entry, name))


# ---- in the background


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4])
async def test_what_is_left_at_the_end_is_carried_out(field: Field, turns: int) -> None:
    """However far it has come by then."""
    gateway = field.gateway()
    await reserve(gateway, "a", tokens(50.0))
    settle(gateway, "a", tokens(20.0))
    gateway.store.book("red", partial(entry, "b", team="red"))
    for _ in range(turns):
        await asyncio.sleep(0)
    await gateway.end()

    assert ["a", "b"] == await field.booked()
    assert 20.0 == field.used(DAY)


async def test_a_store_that_comes_back_while_a_gateway_ends_is_told_all(field: Field) -> None:
    """It was killed, and has nothing on disk: what it took a moment before is told again, with what waited for it."""
    gateway = field.gateway(last_s=60.0)
    for name in ("a", "b"):
        await reserve(gateway, name, tokens(50.0))
    settle(gateway, "a", tokens(20.0))
    await gateway.sent()
    field.server.kill()
    settle(gateway, "b", tokens(7.0))
    await gateway.degraded(is_so=True)
    ending, asked = asyncio.create_task(gateway.end()), gateway.link.asked
    await until(lambda: gateway.link.asked >= asked + 3)
    field.server.start()
    await ending

    assert ["a", "b"] == await field.booked()
    assert 27.0 == field.used(DAY)


async def test_a_store_that_goes_while_a_gateway_ends_is_waited_for(field: Field) -> None:
    """Nobody had noticed before."""
    gateway = field.gateway(last_s=60.0)
    await reserve(gateway, "a", tokens(50.0))
    gateway.link.is_cut = True
    settle(gateway, "a", tokens(20.0))
    ending, asked = asyncio.create_task(gateway.end()), gateway.link.asked
    await until(lambda: gateway.link.asked >= asked + 3)
    gateway.link.is_cut = False
    await ending

    assert ["a"] == await field.booked()


async def test_what_a_store_that_stays_away_does_not_take_is_told(
    field: Field, caplog: pytest.LogCaptureFixture
) -> None:
    """After its time a gateway ends all the same."""
    gateway = field.gateway(last_s=0.1)
    await reserve(gateway, "a", tokens(50.0))
    gateway.link.is_cut = True
    settle(gateway, "a", tokens(20.0))
    await gateway.end()

    assert "1 settlements and bookings could not be carried out" in caplog.text
    assert [] == await field.booked()


async def test_leases_of_what_runs_are_renewed(field: Field) -> None:
    """For as long as it takes, by the gateway that granted it."""
    gateway = field.gateway(lease_s=0.3)
    await reserve(gateway, "a", Charge(SLOTS, 1.0))
    with field.client() as client:
        for _ in range(10):
            field.now += 0.2
            await until(lambda: (client.zscore("warmgate:{blue}:quota:ends", "a") or 0.0) >= field.now + 0.29)
    settle(gateway, "a", Charge(SLOTS, 1.0))
    await gateway.sent()

    assert ["ok"] == [record.outcome for record in await field.records()]


async def test_what_a_dead_gateway_held_is_settled_by_another_one(field: Field) -> None:
    """Of whichever team, though nobody asks for anything of it any more."""
    dead, other = field.gateway(lease_s=0.3), field.gateway(lease_s=0.3)
    for team in ("blue", "red"):
        await dead.store.reserve(
            team, team, [tokens(7.0), Charge(SLOTS, 1.0)], partial(entry, team, outcome="lost", team=team)
        )
    await reserve(other, "alive", tokens(1.0))
    await dead.sent()
    await dead.die()
    async with asyncio.timeout(PATIENCE_S):
        while field.held("blue") != 1 or field.held("red"):
            field.now += 0.05
            await asyncio.sleep(0.05)

    assert ["blue", "red"] == await field.booked()
    assert 7.0 == field.used(DAY, "red")


async def test_who_leaves_while_the_store_is_asked_takes_nothing(field: Field) -> None:
    """Whether it was granted or not."""
    gateway = field.gateway()
    await reserve(gateway, "warm", tokens(1.0))
    for number in range(60):
        task = asyncio.create_task(reserve(gateway, f"r{number}", tokens(10.0), Charge(SLOTS, 0.0)))
        for _ in range(number % 20):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            settle(gateway, f"r{number}", tokens(0.0))
    await gateway.sent()

    assert 1 == field.held()
    assert 1.0 == field.used(DAY)


async def test_what_the_store_refuses_of_one_team_keeps_no_other_waiting(
    field: Field, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again, told once, and done as soon as it can be."""
    gateway = field.gateway()
    with field.client() as client:
        client.set("warmgate:{blue}:ledger:records", "not what belongs there")
        gateway.store.book("blue", partial(entry, "a"))
        gateway.store.book("red", partial(entry, "b", team="red"))
        await until(lambda: gateway.store.waiting_entries == 1)
        assert not gateway.store.is_degraded
        client.delete("warmgate:{blue}:ledger:records")
    await gateway.sent()

    assert ["a", "b"] == await field.booked()
    assert 1 == caplog.text.count("settlements and leases of team blue wait: The store cannot do it: ")


async def test_what_there_is_no_room_for_is_counted_and_told_once(
    field: Field, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = field.gateway(most_waiting=10)
    gateway.link.is_cut = True
    for number in range(15):
        gateway.store.book("blue", partial(entry, f"{number:02}"))
    await gateway.degraded(is_so=True)
    gateway.link.is_cut = False
    await gateway.sent()

    assert [f"{number:02}" for number in range(5, 15)] == await field.booked()
    assert 5 == gateway.store.dropped_entries
    assert 1 == caplog.text.count("settlements are lost")


# ---- without the store


async def test_without_the_store_each_grants_its_share(field: Field, caplog: pytest.LogCaptureFixture) -> None:
    """A third of 60 tokens. When it is back, that is charged to it, and the limit is whole."""
    caplog.set_level(logging.INFO)
    gateways = [field.gateway(OPEN) for _ in range(3)]
    for gateway in gateways:
        gateway.link.is_cut = True
    granted = []
    for at, gateway in enumerate(gateways):
        for number in range(5):
            name = f"g{at}-{number}"
            if isinstance(await reserve(gateway, name, Charge(TOKENS, 10.0)), Granted):
                granted.append(name)
                settle(gateway, name, Charge(TOKENS, 10.0))
        assert gateway.store.is_degraded
    assert ["g0-0", "g0-1", "g1-0", "g1-1", "g2-0", "g2-1"] == granted
    assert 6 <= sum(gateway.store.waiting_entries for gateway in gateways)

    for gateway in gateways:
        gateway.link.is_cut = False
    for gateway in gateways:
        await gateway.degraded(is_so=False)
        await gateway.sent()
    refused = await reserve(gateways[0], "next", Charge(TOKENS, 10.0))

    assert granted == await field.booked()
    assert isinstance(refused, Refused)
    assert 1.0 == pytest.approx(refused.wait_s, abs=0.001)
    assert 3 == caplog.text.count("the store of quotas is away, this gateway grants its share")
    assert 3 == caplog.text.count("the store of quotas is there again")


async def test_what_still_runs_when_the_store_is_back_is_held_by_it(field: Field) -> None:
    """Its place is taken, its lease is kept, and what it used in the end is what is charged."""
    gateway = field.gateway(OPEN)
    gateway.link.is_cut = True
    slots = Limit(SLOTS.id, "concurrent", 3.0)
    assert isinstance(await reserve(gateway, "a", tokens(100.0), Charge(slots, 1.0)), Granted)
    gateway.link.is_cut = False
    await gateway.degraded(is_so=False)
    await gateway.sent()
    assert 1 == field.held()
    assert 100.0 == field.used(DAY)
    settle(gateway, "a", tokens(30.0), Charge(slots, 1.0))
    await gateway.sent()

    assert 0 == field.held()
    assert 30.0 == field.used(DAY)
    assert ["a"] == await field.booked()


async def test_what_was_reserved_before_is_settled_after(field: Field) -> None:
    gateway = field.gateway(OPEN)
    await reserve(gateway, "a", tokens(100.0))
    gateway.link.is_cut = True
    await reserve(gateway, "b", tokens(5.0))
    settle(gateway, "a", tokens(30.0))
    gateway.link.is_cut = False
    await gateway.degraded(is_so=False)
    await gateway.sent()

    assert 35.0 == field.used(DAY)
    assert ["a"] == await field.booked()


async def test_what_the_store_forgot_of_its_last_moments_is_told_again(field: Field) -> None:
    """It was killed, and has nothing on disk: what it was asked for a moment before is charged, held and booked."""
    gateways = [field.gateway() for _ in range(2)]
    for at, gateway in enumerate(gateways):
        for number in range(3):
            await reserve(gateway, f"{at}-{number}", tokens(100.0), Charge(TOKENS, 1.0))
        settle(gateway, f"{at}-0", tokens(20.0), Charge(TOKENS, 1.0))
        settle(gateway, f"{at}-1", tokens(7.0), Charge(TOKENS, 1.0))
        await gateway.sent()
    field.server.kill()
    for gateway in gateways:
        with pytest.raises(StoreAway):
            await reserve(gateway, "x", tokens(1.0))
    field.server.start()
    for gateway in gateways:
        await gateway.degraded(is_so=False)
        await gateway.sent()

    assert ["0-0", "0-1", "1-0", "1-1"] == await field.booked()
    assert 2 == field.held()
    assert 2 * (20.0 + 7.0 + 100.0) == field.used(DAY)


async def test_a_store_that_cannot_be_written_is_away(field: Field) -> None:
    """Though it answers: until it can."""
    gateway = field.gateway(OPEN)
    await reserve(gateway, "a", tokens(1.0))
    with field.client() as client:
        client.config_set("min-replicas-to-write", 1)
        assert isinstance(await reserve(gateway, "b", tokens(2.0)), Granted)
        assert gateway.store.is_degraded
        client.config_set("min-replicas-to-write", 0)
    await gateway.degraded(is_so=False)
    await gateway.sent()

    assert 3.0 == field.used(DAY)


async def test_a_store_that_hangs_costs_one_wait_and_no_more(field: Field) -> None:
    """Whatever it granted without our hearing of it is given back when it goes on."""
    gateway = field.gateway()
    for _ in range(2):
        await reserve(gateway, "warm", tokens(1.0))
    field.server.freeze()
    gateway.link.wait_no_longer_than(0.2)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(StoreAway):
            await reserve(gateway, "a", tokens(10.0))
    assert gateway.store.is_degraded
    with pytest.raises(StoreAway, match="is closed without it"):
        await reserve(gateway, "b", tokens(10.0))
    field.server.thaw()
    gateway.link.wait_no_longer_than(PATIENCE_S)
    await gateway.degraded(is_so=False)
    await gateway.sent()

    assert 1.0 == field.used(DAY)
    assert 1 == field.held()
    assert isinstance(await reserve(gateway, "c", tokens(10.0)), Granted)


async def test_a_kill_of_redis_in_the_middle_loses_and_doubles_nothing(durable: Field) -> None:
    """Three gateways, 60 clients, two kills: what was granted is booked once, and what is charged is what was used."""
    durable.is_timed = False
    gateways = [durable.gateway() for _ in range(3)]
    rng = random.Random(7)
    used: dict[str, float] = {}
    refused = 0
    is_over = asyncio.Event()

    async def client(number: int) -> None:
        nonlocal refused
        turn = 0
        while not is_over.is_set():
            gateway, turn = gateways[(number + turn) % 3], turn + 1
            name = f"{number}-{turn}"
            try:
                await reserve(gateway, name, tokens(rng.randrange(1, 100)))
            except StoreAway:
                refused += 1
                await asyncio.sleep(0.01)
                continue
            await asyncio.sleep(rng.random() * 0.02)
            used[name] = rng.randrange(0, 150)
            settle(gateway, name, tokens(used[name]))

    async with asyncio.TaskGroup() as clients:
        for number in range(60):
            clients.create_task(client(number))
        for _ in range(2):
            seen = len(used)
            await until(lambda seen=seen: len(used) > seen + 200)  # type: ignore[misc]
            durable.server.kill()
            await until(lambda: all(gateway.store.is_degraded for gateway in gateways))
            durable.server.start()
            for gateway in gateways:
                await gateway.degraded(is_so=False)
        is_over.set()
    for gateway in gateways:
        await gateway.sent()

    assert refused > 0
    assert sorted(used) == await durable.booked()
    assert sum(used.values()) == durable.used(DAY)
    assert 0 == durable.held()


@pytest.mark.parametrize("policy", [CLOSED, OPEN], ids=["closed", "share"])
@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_the_books_balance(field: Field, policy: Policy, seed: int) -> None:
    """Three gateways, cut off now and then, one of which dies; 200 random steps.

    What was admitted is no more than burst and rate times time, and where shares are granted, twice that. What is
    charged at the end is what was used, and, of the dead one, what it had reserved. Each request is in the ledger once.
    """
    rng = random.Random(seed)
    gateways = [field.gateway(policy) for _ in range(3)]
    running: dict[str, tuple[Gateway, float]] = {}
    used: dict[str, float] = {}
    net = 0.0
    for step in range(200):
        gateway = rng.choice(gateways)
        name, units = f"{step:03}", float(rng.randrange(1, 50))
        match rng.choices(["reserve", "settle", "cut", "time", "tend"], [8, 6, 1, 4, 1])[0]:
            case "reserve":
                charges = (Charge(TOKENS, units), tokens(units), Charge(Limit(SLOTS.id, "concurrent", 30.0), 1.0))
                with suppress(StoreAway):
                    if isinstance(await reserve(gateway, name, *charges), Granted):
                        running[name] = gateway, units
                        net += units
            case "settle" if running:
                name = rng.choice(list(running))
                gateway, units = running.pop(name)
                used[name] = float(rng.randrange(0, int(units) + 1))
                net -= units - used[name]
                settle(gateway, name, Charge(TOKENS, used[name]), tokens(used[name]), Charge(SLOTS, 1.0))
            case "cut":
                gateway.link.is_cut = not gateway.link.is_cut
            case "time":
                field.now += rng.random() * 0.5  # all in all less than a lease
            case _:
                await asyncio.sleep(0.002)
        bound = TOKENS.burst + TOKENS.amount / 60.0 * (field.now - NOW)
        assert net <= (bound if policy is CLOSED else 2 * bound) + 0.01

    dead = gateways.pop()
    dead.link.is_cut = False
    await dead.degraded(is_so=False)
    await dead.sent()
    lost = {name: running.pop(name)[1] for name, (gateway, _) in list(running.items()) if gateway is dead}
    await dead.die()
    for gateway in gateways:
        gateway.link.is_cut = False
        await gateway.degraded(is_so=False)
    for name, (gateway, units) in running.items():
        used[name] = units / 2
        settle(gateway, name, Charge(TOKENS, used[name]), tokens(used[name]), Charge(SLOTS, 1.0))
    for gateway in gateways:
        await gateway.sent()
    for _ in range(8):
        field.now += LEASE_S / 3
        await gateways[0].store._tend()

    records = await field.records()
    assert {**dict.fromkeys(used, "ok"), **dict.fromkeys(lost, "lost")} == {
        record.request_id: record.outcome for record in records
    }
    assert [] == [name for name, count in Counter(record.request_id for record in records).items() if count > 1]
    assert sum(used.values()) + sum(lost.values()) == pytest.approx(field.used(DAY))
    assert 0 == field.held()
    slots = await reserve(gateways[0], "last", Charge(SLOTS, 0.0), usd(0.0))
    assert isinstance(slots, Granted)
    assert SLOTS.amount == slots.levels[0].remaining


# ---- a store that lost its data


async def test_without_its_data_a_store_counts_as_away(field: Field) -> None:
    """Nothing is counted in it, and nobody is told what was used of it, until there is data again."""
    field.lost = lost()
    gateway = field.gateway(OPEN)
    gateway.store.doubt(field.lost)

    assert isinstance(await reserve(gateway, "r-1", tokens(10.0)), Granted)
    settle(gateway, "r-1", tokens(5.0))
    for question in (gateway.store.spent("blue", [tokens(0.0)]), gateway.store.give("blue", [tokens(1.0)])):
        with pytest.raises(StoreUnfit, match="lost its data"):
            await question
    with field.client() as client:
        assert [] == client.keys("*")

    field.lost = None
    await gateway.degraded(is_so=False)
    await gateway.sent()
    assert 5.0 == field.used(DAY)
    assert ["r-1"] == await field.booked()


async def test_a_closed_limit_is_closed_without_data(field: Field) -> None:
    field.lost = lost()
    gateway = field.gateway(CLOSED)
    gateway.store.doubt(field.lost)

    with pytest.raises(StoreAway):
        await reserve(gateway, "r-1", tokens(10.0))


async def test_a_store_of_another_identity_has_its_data(field: Field) -> None:
    """It was initialized, or is another one: limits are counted in it."""
    gateway = field.gateway(CLOSED)
    gateway.store.doubt(replaced())

    assert not gateway.store.is_degraded
    assert isinstance(await reserve(gateway, "r-1", tokens(10.0)), Granted)
