"""Operations for which there is no room."""

from functools import partial

import pytest

from tests.gateway.tenancy.quota.examples import entry
from tests.gateway.tenancy.quota.redis_field import Field

pytestmark = pytest.mark.redis


async def test_operations_without_room_are_counted_and_logged_once(
    field: Field, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = field.gateway(max_waiting=10)
    gateway.link.is_cut = True
    for number in range(15):
        gateway.store.book("blue", partial(entry, f"{number:02}"))
    await gateway.degraded(is_so=True)
    gateway.link.is_cut = False
    await gateway.sent()

    assert [f"{number:02}" for number in range(5, 15)] == await field.booked()
    assert 5 == gateway.store.dropped_entries
    assert 1 == caplog.text.count("settlements are lost")
