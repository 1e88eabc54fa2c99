"""A team that spends several times its usual amount on a day causes one alert for the day."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.redis_link import redis_link
from gateway.tenancy.alerts.alert import Alert
from gateway.tenancy.alerts.alert_store import Added, NewEntry
from gateway.tenancy.alerts.redis_alerts import RedisAlerts
from gateway.tenancy.alerts.spend_watch import SpendRule, SpendWatch
from gateway.tenancy.alerts.sqlite_alerts import SqliteAlerts
from gateway.tenancy.quota.plan import Calendar
from tests.gateway.tenancy.alerts.stage import NOON, AlertStage, alert_stage
from tests.gateway.tenancy.ledger.examples import an_entry, redis_ledger
from tests.storage import PATIENCE_S, RedisServer

RULE = SpendRule(5.0, 10.0, 3, 14)
TODAY = "2026-11-21"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[AlertStage]:
    """The team blue has spent 4 US dollars on each of the four days before today."""
    async with alert_stage(tmp_path) as stage:
        for day in ("2026-11-17", "2026-11-18", "2026-11-19", "2026-11-20"):
            await stage.spend(day, 4.0)
        yield stage


async def periods(stage: AlertStage) -> list[str]:
    return [each.period for each in await stage.waiting()]


@pytest.mark.parametrize(
    ("spent", "usual"),
    [
        ({"2026-11-20": 3.0, "2026-11-19": 6.0, "2026-11-18": 0.0}, 3.0),
        # Days without requests count, from the first day on.
        ({"2026-11-11": 20.0}, 2.0),
        # Too new: two days.
        ({"2026-11-19": 6.0, "2026-11-20": 6.0}, None),
        ({}, None),
        # A team that paid nothing so far.
        ({"2026-11-17": 0.0}, 0.0),
    ],
)
def test_the_usual_amount_is_the_mean_of_the_days_since_the_first_request(
    spent: dict[str, float], usual: float | None
) -> None:
    assert usual == RULE.usual(spent, TODAY)


@pytest.mark.parametrize(
    ("spent", "usual", "unusual"),
    [(20.0, 4.0, True), (19.99, 4.0, False), (9.99, 0.0, False), (10.0, 0.0, True), (10.0, 1.0, True)],
)
def test_an_unusual_amount_has_a_minimum(spent: float, usual: float, unusual: bool) -> None:
    assert unusual == RULE.is_unusual(spent, usual)


@given(amounts=st.lists(st.floats(0, 1000), min_size=3, max_size=14), today=st.floats(0, 1000))
def test_a_day_like_the_others_is_never_unusual(amounts: list[float], today: float) -> None:
    spent = {f"2026-11-{20 - i:02d}": each for i, each in enumerate(amounts)}
    usual = RULE.usual(spent, TODAY)

    assert usual is not None
    assert not RULE.is_unusual(min(today, usual), usual) or usual == 0.0


async def test_an_unusual_day_causes_one_alert(stage: AlertStage) -> None:
    watch, other = stage.spend_watch(), stage.spend_watch()
    await watch.look()
    await stage.spend(TODAY, 19.5)
    await watch.look()
    assert [] == await periods(stage)
    for _ in range(2):
        await stage.spend(TODAY, 1.0)
        for each in (watch, other, stage.spend_watch()):
            await each.look()

    (alert,) = await stage.waiting()
    assert (1, 0) == (watch.added, other.added)
    assert ("spend.anomaly", "blue", "team", "blue", "usual_usd_per_day", TODAY, 4.0, 20.5, 5.0) == (
        *(alert.type, alert.team, alert.scope, alert.name, alert.budget, alert.period),
        *(alert.limit, alert.used, alert.threshold),
    )
    assert "Team 'blue' has spent 20.5 USD on 2026-11-21, at least 5 times its usual 4 USD per day." == alert.text


async def test_the_next_day_causes_an_alert_of_its_own(stage: AlertStage) -> None:
    """Its usual amount includes the day before."""
    watch = stage.spend_watch()
    await watch.look()
    await stage.spend(TODAY, 24.0)
    await watch.look()
    stage.now = NOON + 86_400.0
    await stage.spend("2026-11-22", 39.0)
    await watch.look()
    assert [TODAY] == await periods(stage)
    await stage.spend("2026-11-22", 1.0)
    await watch.look()

    assert [(TODAY, 4.0), ("2026-11-22", 8.0)] == [(each.period, each.limit) for each in await stage.waiting()]


async def test_a_new_team_and_requests_without_a_team_cause_no_alert(stage: AlertStage) -> None:
    for day in ("2026-11-18", "2026-11-19", "2026-11-20"):
        await stage.spend(day, 1.0, team="")
    await stage.spend("2026-11-19", 1.0, team="new")
    for team in ("", "new"):
        await stage.spend(TODAY, 1000.0, team=team)
    watch = stage.spend_watch()
    await watch.look()

    assert ([], 0) == (await periods(stage), watch.added)


async def test_each_team_is_compared_with_itself(stage: AlertStage) -> None:
    for day in ("2026-11-18", "2026-11-19", "2026-11-20"):
        await stage.spend(day, 100.0, team="big")
    watch = stage.spend_watch()
    await watch.look()
    for team in ("blue", "big"):
        await stage.spend(TODAY, 30.0, team=team)
    await watch.look()

    assert ["blue"] == [each.team for each in await stage.waiting()]


async def test_an_alert_that_cannot_be_stored_is_stored_later(stage: AlertStage) -> None:
    class Away(SqliteAlerts):
        is_away = True

        async def add(self, alert: NewEntry) -> Added:
            if self.is_away:
                raise StoreUnavailable("The store does not answer")
            return await super().add(alert)

    store = Away(stage.file, wall_clock=stage.clock)
    watch = stage.spend_watch(store)
    await watch.look()
    await stage.spend(TODAY, 20.0)
    with pytest.raises(StoreUnavailable):
        await watch.look()
    store.is_away = False
    await watch.look()

    assert [TODAY] == await periods(stage)


async def test_delayed_entries_of_earlier_days_are_read_again(stage: AlertStage) -> None:
    """The sums of earlier days are kept for ten minutes."""
    watch = stage.spend_watch()
    await watch.look()
    await stage.spend("2026-11-20", 80.0)
    stage.now += 600.0
    await stage.spend(TODAY, 20.0)
    await watch.look()

    assert [] == await periods(stage)


async def test_the_watch_looks_again_and_again(stage: AlertStage) -> None:
    watch = stage.spend_watch(check_s=0.001)
    running = asyncio.ensure_future(watch.run())
    await stage.spend(TODAY, 20.0)
    async with asyncio.timeout(60):
        while watch.added < 1:
            await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.wait([running])

    assert [TODAY] == await periods(stage)


@pytest.mark.redis
async def test_gateways_with_one_redis_store_one_alert(redis_server: RedisServer) -> None:
    now = time.time()  # the clock of Redis, which forgets alerts after their period
    days = [(datetime.fromtimestamp(now, UTC).date() - timedelta(days=days)).isoformat() for days in range(5)]
    async with redis_ledger(redis_server) as ledger:
        link = redis_link(redis_server.url, timeout_s=PATIENCE_S)
        for team in ("blue", "red"):
            await ledger.book([an_entry(day, team=team, cost_usd=4.0) for day in days[1:]])
        watches = [
            SpendWatch(
                *(RedisAlerts(link), ledger.usage, Calendar(UTC), RULE),
                receivers=["ops"],
                check_s=10.0,
                clock=lambda: now,
            )
            for _ in range(2)
        ]
        for spent in (15.0, 6.0, 1.0):
            for watch in watches:
                await watch.look()
            await ledger.book([an_entry(days[0], cost_usd=spent)])
        found = (await RedisAlerts(link).waiting("ops", 10)).alerts
        alerts = [msgspec.json.decode(each.body, type=Alert) for each in found]
        await link.aclose()

    assert [("blue", days[0], 4.0, 21.0)] == [(each.team, each.period, each.limit, each.used) for each in alerts]
    assert 1 == sum(each.added for each in watches)
