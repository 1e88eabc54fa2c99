"""Each threshold of each budget causes one alert per period, whichever gateway looks, and however often."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.alerts.alert_store import Added, NewEntry
from gateway.tenancy.alerts.sqlite_alerts import SqliteAlerts
from gateway.tenancy.teams.limit_raise import LimitRaise
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team
from tests.gateway.tenancy.alerts.stage import NOON, AlertStage, alert_stage

BLUE = Team("blue", limits=Limits(usd_per_month=10.0))
MONTHLY = "team:blue/usd_per_month"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[AlertStage]:
    async with alert_stage(tmp_path) as stage:
        stage.have(BLUE)
        yield stage


async def thresholds(stage: AlertStage) -> list[float]:
    return [each.threshold for each in await stage.waiting()]


async def test_each_threshold_causes_one_alert(stage: AlertStage) -> None:
    watch = stage.watch()
    await watch.look()
    for units, expected in ((4.9, []), (0.1, [0.5]), (1.0, [0.5]), (4.0, [0.5, 0.8, 1.0])):
        await stage.use(MONTHLY, units)
        await watch.look()
        assert expected == await thresholds(stage)

    assert 3 == watch.added


async def test_the_alert_names_the_budget(stage: AlertStage) -> None:
    watch = stage.watch()
    await watch.look()
    await stage.use(MONTHLY, 5.5)
    await watch.look()
    (alert,) = await stage.waiting()

    assert ("blue", "team", "blue", None, "usd_per_month", "2026-11") == (
        *(alert.team, alert.scope, alert.name, alert.model),
        *(alert.budget, alert.period),
    )
    assert (10.0, 5.5, "2026-11-21T12:00:00Z") == (alert.limit, alert.used, alert.time)


async def test_another_gateway_and_a_restarted_one_repeat_nothing(stage: AlertStage) -> None:
    first, other = stage.watch(), stage.watch()
    await first.look()
    await stage.use(MONTHLY, 8.0)
    for watch in (first, other, stage.watch()):
        await watch.look()

    assert ([0.5, 0.8], 2, 0) == (await thresholds(stage), first.added, other.added)


async def test_a_period_begins_with_no_alerts(stage: AlertStage) -> None:
    watch = stage.watch()
    await watch.look()
    await stage.use(MONTHLY, 5.0)
    await watch.look()
    stage.now = NOON + 15 * 86_400.0
    await watch.look()
    await stage.use(MONTHLY, 6.0, period="2026-12")
    await watch.look()

    assert [("2026-11", 0.5), ("2026-12", 0.5)] == [(each.period, each.threshold) for each in await stage.waiting()]


async def test_a_raise_is_another_amount(stage: AlertStage) -> None:
    """Its thresholds are reached later, and after its end nothing is repeated."""
    watch = stage.watch()
    await watch.look()
    await stage.use(MONTHLY, 8.0)
    await watch.look()
    raised = LimitRaise("r1", "team", "blue", "usd_per_month", 20.0, NOON + 60.0, "launch")
    stage.have(structs.replace(BLUE, raises=(raised,)))
    await stage.use(MONTHLY, 3.0, amount=20.0)
    await watch.look()
    stage.now += 60.0
    await watch.look()

    assert [(10.0, 0.5), (10.0, 0.8), (20.0, 0.5), (10.0, 1.0)] == [
        (each.limit, each.threshold) for each in await stage.waiting()
    ]


async def test_an_alert_that_cannot_be_stored_is_stored_later(stage: AlertStage) -> None:
    class Away(SqliteAlerts):
        is_away = True

        async def add(self, alert: NewEntry) -> Added:
            if self.is_away:
                raise StoreUnavailable("The store does not answer")
            return await super().add(alert)

    store = Away(stage.file, wall_clock=stage.clock)
    watch = stage.watch(store)
    await watch.look()
    await stage.use(MONTHLY, 8.0)
    with pytest.raises(StoreUnavailable):
        await watch.look()
    store.is_away = False
    await watch.look()

    assert [0.5, 0.8] == await thresholds(stage)


async def test_too_many_alerts_of_end_users_are_counted(stage: AlertStage, caplog: pytest.LogCaptureFixture) -> None:
    class Full(SqliteAlerts):
        async def add(self, alert: NewEntry) -> Added:
            return "crowded"

    watch = stage.watch(Full(stage.file, wall_clock=stage.clock))
    await watch.look()
    await stage.use(MONTHLY, 8.0)
    await watch.look()
    await watch.look()

    assert (0, 4) == (watch.added, watch.crowded)
    assert 1 == caplog.text.count("team blue: too many end users have reached budgets for alerts")


async def test_the_watch_looks_again_and_again(stage: AlertStage) -> None:
    watch = stage.watch(check_s=0.001)
    await stage.use(MONTHLY, 5.0)
    running = asyncio.ensure_future(watch.run())
    async with asyncio.timeout(60):
        while watch.added < 1:
            await asyncio.sleep(0.001)
        await stage.use(MONTHLY, 3.0)
        while watch.added < 2:
            await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.wait([running])

    assert [0.5, 0.8] == await thresholds(stage)
