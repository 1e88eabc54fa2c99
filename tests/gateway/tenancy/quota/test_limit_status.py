"""State of limits in either store."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC
from functools import partial

import pytest

from gateway.tenancy.ledger.price import Price
from gateway.tenancy.quota.limit import Granted
from gateway.tenancy.quota.limit_status import limit_status
from gateway.tenancy.quota.plan import Calendar, Metered, Plans, Tokens
from gateway.tenancy.teams.limits import Limits
from tests.contracts.embedded_quota import embedded
from tests.contracts.quota_stage import NOW, QuotaStage, entry
from tests.contracts.redis_quota import redis
from tests.contracts.shared_quota import shared
from tests.gateway.tenancy.quota.examples import caller

Open = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[QuotaStage]]

PRICE = Price.per_million(input_usd=1.0, cached_input_usd=0.1, output_usd=2.0)
TINY, LARGE = Metered("tiny", PRICE.cost_usd), Metered("large", PRICE.cost_usd)
WHO = caller(
    key=Limits(requests_per_minute=600, concurrent=5),
    key_model={"large": Limits(tokens_per_minute=1000)},
    team=Limits(usd_per_month=10.0),
)


@pytest.fixture(
    params=[
        pytest.param(embedded, id="embedded"),
        pytest.param(shared, id="shared"),
        pytest.param(redis, id="redis", marks=pytest.mark.redis),
    ]
)
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[QuotaStage]:
    open_: Open = request.param
    async with open_(request) as opened:
        yield opened


def made() -> Plans:
    return Plans(burst=0.1, cached_weight=0.1, calendar=Calendar(UTC))


async def left_of(stage: QuotaStage, plans: Plans) -> dict[str, float]:
    """Return what remains of each limit."""
    stands = await limit_status(stage.store, "blue", [plans.plan_for(WHO, TINY), plans.plan_for(WHO, LARGE)], NOW)
    return {each.scoped.limit.id: each.level.remaining for each in stands}


async def test_every_limit_appears_once(stage: QuotaStage) -> None:
    """Those of all models together are in the plan of each; of a rate the burst is what would be granted now."""
    assert {
        "key:ci/requests_per_minute": 60.0,
        "key:ci/concurrent": 5.0,
        "team:blue/usd_per_month": 10.0,
        "key:ci/model:large/tokens_per_minute": 100.0,
    } == await left_of(stage, made())


async def test_it_takes_nothing(stage: QuotaStage) -> None:
    """However often it is asked; and nothing is booked."""
    plans = made()
    first = await left_of(stage, plans)

    assert [first] * 5 == [await left_of(stage, plans) for _ in range(5)]
    assert [] == await stage.booked()


async def test_running_requests_are_subtracted(stage: QuotaStage) -> None:
    """The next request would find the same."""
    plans = made()
    charges = plans.plan_for(WHO, LARGE).charges(Tokens(30.0, 0.0, 20.0), 2.5, NOW)
    assert isinstance(await stage.store.reserve("blue", "r-1", charges, partial(entry, "lost")), Granted)

    left = await left_of(stage, plans)

    assert (4.0, 7.5) == (left["key:ci/concurrent"], left["team:blue/usd_per_month"])
    assert 59.0 <= left["key:ci/requests_per_minute"] <= 60.0
    assert 50.0 <= left["key:ci/model:large/tokens_per_minute"] <= 100.0


async def test_where_there_is_no_limit_nothing_is_asked(stage: QuotaStage) -> None:
    """No limits, no round trip."""
    assert [] == await limit_status(stage.store, "blue", [made().plan_for(caller(), TINY)], NOW)
