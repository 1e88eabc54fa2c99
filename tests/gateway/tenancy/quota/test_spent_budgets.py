"""Budgets that refused requests are remembered until they are read."""

from gateway.tenancy.quota import spent_budgets as module
from gateway.tenancy.quota.spent_budgets import SpentBudgets


def test_budgets_are_read_once() -> None:
    spent = SpentBudgets()
    spent.note("blue", "team:blue/usd_per_day", "2026-11-21")
    spent.note("blue", "team:blue/usd_per_day", "2026-11-21")
    spent.note("red", "key:ci/usd_per_month", "2026-11")

    assert {("team:blue/usd_per_day", "2026-11-21")} == spent.take("blue")
    assert set() == spent.take("blue")
    assert {("key:ci/usd_per_month", "2026-11")} == spent.take("red")


def test_the_number_of_budgets_is_bounded() -> None:
    """Callers choose the names of end users."""
    spent = SpentBudgets()
    for number in range(module.MAX_NOTES + 50):
        spent.note(f"team-{number % 60}", f"user:{number}/usd_per_day", "2026-11-21")
    spent.note("new", "team:new/usd_per_day", "2026-11-21")

    assert (set(), module.MAX_NOTES) == (
        spent.take("new"),
        sum(len(spent.take(f"team-{number}")) for number in range(60)),
    )
    spent.note("new", "team:new/usd_per_day", "2026-11-21")
    assert 1 == len(spent.take("new"))
