"""Use of budgets, and refunds."""

from collections.abc import AsyncIterator
from datetime import UTC
from pathlib import Path

import pytest
from msgspec import structs

from gateway.protocol.errors import InvalidField, StoreUnavailable
from gateway.tenancy.quota import budgets as module
from gateway.tenancy.quota.budgets import Budget, Budgets, BudgetStatus
from gateway.tenancy.quota.limit import Charge
from gateway.tenancy.quota.plan import Calendar
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limit_raise import LimitRaise
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team
from tests.contracts.embedded_quota import EmbeddedStage
from tests.gateway.tenancy.quota.examples import NOW, entry, usd

BLUE = Team(
    "blue", limits=Limits(usd_per_day=1.0, tokens_per_day=500), model_limits={"tiny": Limits(usd_per_month=7.0)}
)
RED = Team("red", limits=Limits(requests_per_minute=5))
CI = Key("ci", "blue", "0" * 64, limits=Limits(usd_per_month=20.0))
FREE = Key("free", "red", "1" * 64)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[EmbeddedStage]:
    stage = EmbeddedStage(tmp_path / "quota.db")
    await stage.begin()
    yield stage
    await stage.close()


@pytest.fixture
def directory() -> Directory:
    directory = Directory()
    directory.declare(Declared({each.name: each for each in (BLUE, RED)}, {each.id: each for each in (CI, FREE)}))
    return directory


@pytest.fixture
def budgets(stage: EmbeddedStage, directory: Directory) -> Budgets:
    return Budgets(stage.store, directory, Calendar(UTC), clock=lambda: NOW)


async def use(stage: EmbeddedStage, units: float) -> None:
    await stage.store.reserve("blue", f"r{units}", [usd(units)], lambda: entry("lost"))
    stage.store.settle("blue", f"r{units}", [usd(units)], lambda: entry("used"))


async def test_budgets_are_shown_for_teams_and_keys(stage: EmbeddedStage, budgets: Budgets) -> None:
    """What is used of them, or reserved; nothing of who has none."""
    await use(stage, 0.25)
    await stage.store.reserve("blue", "running", [usd(0.5)], lambda: entry("lost"))
    await budgets.look()

    assert (
        BudgetStatus("blue", None, "day", 500.0, 0.0, "tokens"),
        BudgetStatus("blue", None, "day", 1.0, 0.75),
        BudgetStatus("blue", "ci", "month", 20.0, 0.0),
    ) == budgets.statuses


async def test_a_budget_is_shown_with_the_raise_that_applies(stage: EmbeddedStage) -> None:
    """Otherwise, alerts would compare the use with an amount that does not apply."""
    raised = LimitRaise("r1", "team", "blue", "usd_per_day", 3.0, NOW + 60.0, "launch")
    ended = LimitRaise("r2", "key", "ci", "usd_per_month", 90.0, NOW, "over")
    directory = Directory()
    blue, ci = structs.replace(BLUE, raises=(raised,)), structs.replace(CI, raises=(ended,))
    directory.declare(Declared({"blue": blue}, {"ci": ci}))
    budgets = Budgets(stage.store, directory, Calendar(UTC), clock=lambda: NOW)
    await budgets.look()

    assert [("tokens", 500.0), ("usd", 3.0), ("usd", 20.0)] == [(each.unit, each.limit) for each in budgets.statuses]


async def test_the_number_of_shown_keys_is_bounded(budgets: Budgets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEYS", 0)
    await budgets.look()

    assert [None, None] == [each.key for each in budgets.statuses]


async def test_an_unavailable_store_has_no_status(stage: EmbeddedStage, budgets: Budgets, directory: Directory) -> None:
    class Away:
        async def spent(self, team: str, charges: list[Charge]) -> list[float]:
            raise StoreUnavailable("The store does not answer")

    away = Budgets(Away(), directory, Calendar(UTC), clock=lambda: NOW)  # type: ignore[arg-type]
    await away.look()

    assert () == away.statuses


async def test_a_refund_reduces_what_is_used(stage: EmbeddedStage, budgets: Budgets) -> None:
    await use(stage, 0.75)

    assert (0.75, 0.25) == await budgets.refund(Budget("blue", "usd_per_day"), 0.5)
    assert (0.25, 0.0) == await budgets.refund(Budget("blue", "usd_per_day"), 0.5)
    assert (0.0, 0.0) == await budgets.refund(Budget("blue", "usd_per_month", key="ci"), 1.0)
    assert (0.0, 0.0) == await budgets.refund(Budget("blue", "usd_per_month", model="tiny"), 1.0)
    assert (0.0, 0.0) == await budgets.refund(Budget("blue", "tokens_per_day"), 100.0)


@pytest.mark.parametrize(
    ("budget", "param"),
    [
        (Budget("blue", "usd_per_month"), "measure"),
        (Budget("blue", "usd_per_month", model="large"), "measure"),
        (Budget("blue", "usd_per_month", key="free"), "key"),
        (Budget("blue", "usd_per_month", key="gone"), "key"),
        (Budget("red", "usd_per_day"), "measure"),
    ],
)
async def test_only_to_a_budget_can_be_given(budgets: Budgets, budget: Budget, param: str) -> None:
    with pytest.raises(InvalidField) as refused:
        await budgets.refund(budget, 1.0)

    assert param == refused.value.param
