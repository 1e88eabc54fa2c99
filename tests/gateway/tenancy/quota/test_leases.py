"""Leases of reservations that run, and of gateways that died."""

import asyncio
from functools import partial

import pytest

from gateway.tenancy.quota.limit import Charge
from tests.contracts.quota_stage import PATIENCE_S
from tests.gateway.tenancy.quota.examples import SLOTS, entry
from tests.gateway.tenancy.quota.redis_field import DAY, Field, reserve, settle, tokens, until

pytestmark = pytest.mark.redis


async def test_the_gateway_renews_the_leases_of_running_requests(field: Field) -> None:
    gateway = field.gateway(lease_s=0.3)
    await reserve(gateway, "a", Charge(SLOTS, 1.0))
    with field.client() as client:
        for _ in range(10):
            field.now += 0.2
            await until(lambda: (client.zscore("warmgate:{blue}:quota:ends", "a") or 0.0) >= field.now + 0.29)
    settle(gateway, "a", Charge(SLOTS, 1.0))
    await gateway.sent()

    assert ["ok"] == [record.outcome for record in await field.records()]


async def test_another_gateway_settles_what_a_dead_one_held(field: Field) -> None:
    """This holds for teams without further requests too."""
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
