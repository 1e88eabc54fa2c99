"""A team that the store refuses, beside others."""

from functools import partial

import pytest

from tests.gateway.tenancy.quota.examples import entry
from tests.gateway.tenancy.quota.redis_field import Field, until

pytestmark = pytest.mark.redis


async def test_a_refused_team_does_not_delay_others(field: Field, caplog: pytest.LogCaptureFixture) -> None:
    """Its call is logged once and repeated until it succeeds."""
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
    assert 1 == caplog.text.count("settlements and leases of team blue are delayed: The store refused the request: ")
