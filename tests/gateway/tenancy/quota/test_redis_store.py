"""Quotas of several gateways with one Redis: background work and outages."""

import asyncio
import logging
import random
from collections import Counter
from contextlib import suppress
from functools import partial

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.unfit import StoreUnfit, lost, replaced
from gateway.tenancy.quota.limit import Charge, Granted, Limit, Refused
from gateway.tenancy.quota.share import Policy
from tests.contracts.quota_stage import PATIENCE_S
from tests.contracts.redis_quota import CLOSED
from tests.gateway.tenancy.quota.examples import NOW, SLOTS, TOKENS, entry, usd
from tests.gateway.tenancy.quota.redis_field import DAY, LEASE_S, OPEN, Field, Gateway, reserve, settle, tokens, until

pytestmark = pytest.mark.redis


# ---- background work


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4])
async def test_the_rest_is_sent_at_the_end(field: Field, turns: int) -> None:
    """This holds at any moment."""
    gateway = field.gateway()
    await reserve(gateway, "a", tokens(50.0))
    settle(gateway, "a", tokens(20.0))
    gateway.store.book("red", partial(entry, "b", team="red"))
    for _ in range(turns):
        await asyncio.sleep(0)
    await gateway.end()

    assert ["a", "b"] == await field.booked()
    assert 20.0 == field.used(DAY)


async def test_a_store_that_comes_back_while_a_gateway_ends_gets_everything(field: Field) -> None:
    """It was killed without data on disk. It gets its last operations again, and those that waited."""
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
    """The gateway notices only at its end."""
    gateway = field.gateway(last_s=60.0)
    await reserve(gateway, "a", tokens(50.0))
    gateway.link.is_cut = True
    settle(gateway, "a", tokens(20.0))
    ending, asked = asyncio.create_task(gateway.end()), gateway.link.asked
    await until(lambda: gateway.link.asked >= asked + 3)
    gateway.link.is_cut = False
    await ending

    assert ["a"] == await field.booked()


async def test_lost_settlements_are_logged_at_the_end(field: Field, caplog: pytest.LogCaptureFixture) -> None:
    """A gateway ends even if the store stays unavailable."""
    gateway = field.gateway(last_s=0.1)
    await reserve(gateway, "a", tokens(50.0))
    gateway.link.is_cut = True
    settle(gateway, "a", tokens(20.0))
    await gateway.end()

    assert "1 settlements and reservations are lost" in caplog.text
    assert [] == await field.booked()


async def test_a_client_that_leaves_during_the_call_takes_nothing(field: Field) -> None:
    """It does not matter whether the store granted it."""
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


# ---- without the store


async def test_without_the_store_each_gateway_grants_its_share(field: Field, caplog: pytest.LogCaptureFixture) -> None:
    """Each grants a third of 60 tokens. When the store is back, it is charged with that."""
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
    assert 3 == caplog.text.count("the quota store is unavailable, and this gateway grants its share of the limits")
    assert 3 == caplog.text.count("the quota store is available again")


async def test_requests_that_run_when_the_store_is_back_are_held_by_it(field: Field) -> None:
    """The store counts its slot, renews its lease, and charges its actual use."""
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


async def test_a_reservation_from_before_an_outage_is_settled_after_it(field: Field) -> None:
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


async def test_recent_operations_are_sent_again(field: Field) -> None:
    """The store was killed without data on disk. What it carried out last is charged, held and booked again."""
    gateways = [field.gateway() for _ in range(2)]
    for at, gateway in enumerate(gateways):
        for number in range(3):
            await reserve(gateway, f"{at}-{number}", tokens(100.0), Charge(TOKENS, 1.0))
        settle(gateway, f"{at}-0", tokens(20.0), Charge(TOKENS, 1.0))
        settle(gateway, f"{at}-1", tokens(7.0), Charge(TOKENS, 1.0))
        await gateway.sent()
    field.server.kill()
    for gateway in gateways:
        with pytest.raises(StoreUnavailable):
            await reserve(gateway, "x", tokens(1.0))
    field.server.start()
    for gateway in gateways:
        await gateway.degraded(is_so=False)
        await gateway.sent()

    assert ["0-0", "0-1", "1-0", "1-1"] == await field.booked()
    assert 2 == field.held()
    assert 2 * (20.0 + 7.0 + 100.0) == field.used(DAY)


async def test_a_store_that_cannot_be_written_is_unavailable(field: Field) -> None:
    """It answers reads, but is unavailable until it can be written."""
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
    """What it granted without an answer is given back when it continues."""
    gateway = field.gateway()
    for _ in range(2):
        await reserve(gateway, "warm", tokens(1.0))
    field.server.freeze()
    gateway.link.wait_no_longer_than(0.2)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(StoreUnavailable):
            await reserve(gateway, "a", tokens(10.0))
    assert gateway.store.is_degraded
    with pytest.raises(StoreUnavailable, match="grants nothing while the quota store is unavailable"):
        await reserve(gateway, "b", tokens(10.0))
    field.server.thaw()
    gateway.link.wait_no_longer_than(PATIENCE_S)
    await gateway.degraded(is_so=False)
    await gateway.sent()

    assert 1.0 == field.used(DAY)
    assert 1 == field.held()
    assert isinstance(await reserve(gateway, "c", tokens(10.0)), Granted)


async def test_a_kill_of_redis_in_the_middle_loses_and_doubles_nothing(durable: Field) -> None:
    """Three gateways, 60 clients, two kills: each grant is booked once, and the charges equal the use."""
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
            except StoreUnavailable:
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
                with suppress(StoreUnavailable):
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
                field.now += rng.random() * 0.5  # together less than a lease
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
        await gateways[0].store._renew()

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


async def test_a_store_without_its_data_counts_as_unavailable(field: Field) -> None:
    """Nothing is counted in it or read from it until it has data again."""
    field.lost = lost()
    gateway = field.gateway(OPEN)
    gateway.store.doubt(field.lost)

    assert isinstance(await reserve(gateway, "r-1", tokens(10.0)), Granted)
    settle(gateway, "r-1", tokens(5.0))
    for question in (gateway.store.spent("blue", [tokens(0.0)]), gateway.store.refund("blue", [tokens(1.0)])):
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

    with pytest.raises(StoreUnavailable):
        await reserve(gateway, "r-1", tokens(10.0))


async def test_a_store_of_another_identity_has_its_data(field: Field) -> None:
    """It was initialized, or is another store: limits are counted in it."""
    gateway = field.gateway(CLOSED)
    gateway.store.doubt(replaced())

    assert not gateway.store.is_degraded
    assert isinstance(await reserve(gateway, "r-1", tokens(10.0)), Granted)
