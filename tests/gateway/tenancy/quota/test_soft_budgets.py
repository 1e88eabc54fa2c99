"""Soft budgets warn of what the ledger has, and of nothing else."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.ledger.usage_store import SumQuery, UsageStore, UsageSum
from gateway.tenancy.quota.plan import Calendar
from gateway.tenancy.quota.soft_budgets import SoftBudgets, SoftBudgetStatus
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team
from tests.gateway.tenancy.ledger.examples import Ledger, an_entry, redis_ledger, sqlite_ledger
from tests.storage import RedisServer

NOON = 1_795_262_400.0
"""2026-11-21 12:00 in UTC."""
DAY_S = 86_400.0
BLUE = Team("blue", limits=Limits(soft_usd_per_month=1.0))
RED = Team("red", limits=Limits(usd_per_day=1.0))
CI = Key("ci", "blue", "0" * 64)
APP = Key("app", "blue", "1" * 64, model_limits={"tiny": Limits(soft_tokens_per_day=100)})
FREE = Key("free", "red", "2" * 64)

Open = Callable[[], AbstractAsyncContextManager[Ledger]]


@dataclass
class Observed:
    """Passes questions on and keeps them; *away*: it answers none."""

    usage: UsageStore
    away: bool = False
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)

    async def sums(self, query: SumQuery) -> list[UsageSum]:
        if self.away:
            raise StoreUnavailable("The store does not answer")
        self.asked.append((query.period.first_day, query.period.last_day, query.of.team))
        return await self.usage.sums(query)


@dataclass
class Stage:
    ledger: Ledger
    usage: Observed
    directory: Directory
    budgets: SoftBudgets
    now: float = NOON

    def have(self, *teams: Team) -> None:
        keys = {key.id: key for key in (CI, APP, FREE)}
        self.directory.declare(Declared({team.name: team for team in teams}, keys))

    def header(self, team: Team, key: Key, model: str = "tiny") -> str | None:
        headers = dict(self.budgets.headers_of(Caller(team, key), model))
        value = headers.get(b"x-warmgate-budget-warning")
        return None if value is None else value.decode()


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def open_ledger(request: pytest.FixtureRequest) -> Open:
    if request.param == "sqlite":
        return sqlite_ledger
    server: RedisServer = request.getfixturevalue("redis_server")
    return partial(redis_ledger, server)


@pytest.fixture
async def stage(open_ledger: Open) -> AsyncIterator[Stage]:
    async with open_ledger() as ledger:
        yield _stage(ledger)


def _stage(ledger: Ledger) -> Stage:
    usage, directory = Observed(ledger.usage), Directory()
    stage: Stage

    def now() -> float:
        return stage.now

    budgets = SoftBudgets(usage, directory, Calendar(UTC), cached_weight=0.5, clock=now)  # type: ignore[arg-type]
    stage = Stage(ledger, usage, directory, budgets)
    stage.have(BLUE, RED)
    return stage


async def test_a_budget_that_is_passed_is_in_a_header_and_in_metrics(stage: Stage) -> None:
    """All days of the month count. A budget that is used up but not exceeded does not warn."""
    await stage.ledger.book([an_entry("2026-11-01", cost_usd=0.75), an_entry("2026-11-21", cost_usd=0.25)])
    await stage.budgets.look()
    used_up = stage.header(BLUE, CI), stage.budgets.statuses
    await stage.ledger.book([an_entry("2026-11-21", cost_usd=0.5)])
    await stage.budgets.look()

    assert (None, SoftBudgetStatus("blue", "team/usd_per_month", 1.0)) == (used_up[0], used_up[1][0])
    assert "team/usd_per_month" == stage.header(BLUE, CI)
    assert SoftBudgetStatus("blue", "team/usd_per_month", 1.5) == stage.budgets.statuses[0]
    assert None is stage.header(RED, FREE)


async def test_a_budget_of_a_key_and_model_warns_only_there(stage: Stage) -> None:
    """Tokens count as hard limits count them: here, of 100 prompt tokens, 60 are cached and weigh half."""
    await stage.ledger.book([an_entry(key="app"), an_entry(key="ci"), an_entry(key="app", model="large")])
    await stage.budgets.look()
    first = stage.header(BLUE, APP)
    await stage.ledger.book([an_entry(key="app")])
    await stage.budgets.look()

    assert None is first
    assert ["key/model/tokens_per_day", None, None] == [
        stage.header(BLUE, APP),
        stage.header(BLUE, APP, "large"),
        stage.header(BLUE, CI),
    ]
    assert SoftBudgetStatus("blue", "key/model/tokens_per_day", 1.8) == stage.budgets.statuses[1]


async def test_a_crossing_is_logged_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Not again while the ledger was away in between, but again in the next month."""
    await stage.ledger.book([an_entry("2026-11-21", cost_usd=1.5), an_entry("2026-12-01", cost_usd=2.5)])
    for away in (False, False, True, False):
        stage.usage.away = away
        await stage.budgets.look()
    november = list(caplog.messages)
    stage.now += 10 * DAY_S
    await stage.budgets.look()

    assert ["team blue: the soft budget soft_usd_per_month for 2026-11 is exceeded: 1.5 used of 1"] == november
    assert ["team blue: the soft budget soft_usd_per_month for 2026-12 is exceeded: 2.5 used of 1"] == caplog.messages[
        1:
    ]


async def test_an_unavailable_ledger_has_no_status(stage: Stage) -> None:
    await stage.ledger.book([an_entry(cost_usd=1.5)])
    await stage.budgets.look()
    stage.usage.away = True
    await stage.budgets.look()

    assert (None, ()) == (stage.header(BLUE, CI), stage.budgets.statuses)


async def test_a_budget_that_is_raised_warns_no_more(stage: Stage) -> None:
    await stage.ledger.book([an_entry(cost_usd=1.5)])
    await stage.budgets.look()
    stage.have(Team("blue", limits=Limits(soft_usd_per_month=3.0)), RED)
    await stage.budgets.look()

    assert None is stage.header(BLUE, CI)
    assert SoftBudgetStatus("blue", "team/usd_per_month", 0.5) == stage.budgets.statuses[0]


async def test_days_before_today_are_read_every_ten_minutes(stage: Stage) -> None:
    """Teams without a soft budget cause no query."""
    for _ in range(3):
        await stage.budgets.look()
        stage.now += 300.0
    today, earlier = ("2026-11-21", "2026-11-21", "blue"), ("2026-11-01", "2026-11-20", "blue")

    assert [today, earlier, today, today, earlier] == stage.usage.asked
