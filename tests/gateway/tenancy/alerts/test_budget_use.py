"""The budgets that are compared with thresholds, and their use."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.alerts.budget_use import BudgetUse, BudgetUses
from gateway.tenancy.ledger.sqlite_book import book
from gateway.tenancy.quota.limit import Charge
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team
from tests.gateway.tenancy.alerts.stage import NOON, AlertStage, alert_stage
from tests.gateway.tenancy.ledger.examples import an_entry

BLUE = Team(
    "blue",
    limits=Limits(usd_per_month=10.0, soft_usd_per_day=1.0),
    project_limits={"search": Limits(tokens_per_day=100)},
    user_limits=Limits(usd_per_day=2.0),
)
CI = Key("ci", "blue", "0" * 64, limits=Limits(soft_usd_per_month=4.0))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[AlertStage]:
    async with alert_stage(tmp_path) as stage:
        yield stage


async def read(uses: BudgetUses) -> list[BudgetUse]:
    return [use async for of_team in uses.read() for use in of_team]


async def test_budgets_of_all_owners(stage: AlertStage) -> None:
    """Soft budgets, and end users whom the ledger knows, among them."""
    stage.have(BLUE, Team("free"), keys=[CI])
    entry = an_entry("2026-11-21", user="ann", cost_usd=0.5)
    await stage.file.run(lambda connection: book(connection, [entry]))
    await stage.use("team:blue/usd_per_month", 2.5)
    await stage.soft_budgets.look()
    found = {
        (each.scope, each.name, each.budget): (each.period, each.ends, each.limit, each.used)
        for each in await read(stage.uses())
    }
    midnight, december = NOON + 43_200.0, NOON + 43_200.0 + 9 * 86_400.0

    assert {
        ("team", "blue", "usd_per_month"): ("2026-11", december, 10.0, 2.5),
        ("project", "search", "tokens_per_day"): ("2026-11-21", midnight, 100.0, 0.0),
        ("user", "", "usd_per_day"): ("2026-11-21", midnight, 2.0, 0.0),
        ("user", "ann", "usd_per_day"): ("2026-11-21", midnight, 2.0, 0.0),
        ("team", "blue", "soft_usd_per_day"): ("2026-11-21", midnight, 1.0, 0.5),
        ("key", "ci", "soft_usd_per_month"): ("2026-11", december, 4.0, 0.5),
    } == found


@pytest.mark.parametrize(("used", "share"), [(9.5, 1.0), (9.4, 0.94), (10.5, 1.05)])
async def test_a_budget_that_refuses_counts_as_used_if_little_is_left(
    stage: AlertStage, used: float, share: float
) -> None:
    """A request that needs more than the rest is refused, so budgets are seldom used to the last cent."""
    stage.have(Team("blue", limits=Limits(usd_per_month=10.0)))
    await stage.use("team:blue/usd_per_month", used, amount=20.0)
    stage.spent.note("blue", "team:blue/usd_per_month", "2026-11")
    (use,) = await read(stage.uses())
    (later,) = await read(stage.uses())

    assert (share, round(used / 10.0, 9)) == (round(use.share, 9), round(later.share, 9))


async def test_a_team_without_a_store_is_left_out(stage: AlertStage) -> None:
    class Away:
        async def spent(self, team: str, charges: list[Charge]) -> list[float]:
            raise StoreUnavailable("The store does not answer")

    stage.have(BLUE)

    assert [] == await read(stage.uses(Away()))  # type: ignore[arg-type]
