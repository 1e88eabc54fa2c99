from prometheus_client import CollectorRegistry, generate_latest

from gateway.protocol.usage import Usage
from gateway.telemetry.team_metrics import TeamMetrics
from gateway.tenancy.quota.budgets import BudgetStatus
from gateway.tenancy.quota.soft_budgets import SoftBudgetStatus
from tests.gateway.examples import an_ended_request


def seen(metrics: TeamMetrics) -> list[str]:
    registry = CollectorRegistry()
    registry.register(metrics)
    text = generate_latest(registry).decode()
    return [line for line in text.splitlines() if not line.startswith("#") and "_created" not in line]


def test_requests_tokens_and_money_are_counted_by_team() -> None:
    metrics = TeamMetrics(lambda: False)
    usage = Usage(prompt_tokens=100, completion_tokens=7, cached_tokens=64)
    metrics.observe([an_ended_request(1.0, team="blue", status=200, usage=usage, cost_usd=0.5, saved_usd=0.25)])
    metrics.observe([an_ended_request(1.0, team="blue", status=200, fell_back=True, cost_usd=2.0)])

    assert {
        'warmgate_team_requests_total{status="200",team="blue"} 2.0',
        'warmgate_team_tokens_total{kind="prompt",team="blue"} 100.0',
        'warmgate_team_tokens_total{kind="cached",team="blue"} 64.0',
        'warmgate_team_tokens_total{kind="completion",team="blue"} 7.0',
        'warmgate_team_cost_usd_total{backend="workers",team="blue"} 0.5',
        'warmgate_team_cost_usd_total{backend="fallback",team="blue"} 2.0',
        'warmgate_team_saved_usd_total{team="blue"} 0.25',
    } <= set(seen(metrics))


def test_what_a_limit_turned_away_is_counted_by_limit() -> None:
    metrics = TeamMetrics(lambda: False)
    metrics.observe([an_ended_request(1.0, team="blue", status=429, refused_by="key/tokens_per_minute")])

    assert 'warmgate_team_refused_total{limit="key/tokens_per_minute",team="blue"} 1.0' in seen(metrics)


def test_requests_without_a_team_are_not_counted() -> None:
    metrics = TeamMetrics(lambda: False)
    metrics.observe([an_ended_request(1.0, status=200)])

    assert ["warmgate_quota_degraded 0.0"] == seen(metrics)


def test_limits_that_are_held_without_the_store_are_a_gauge() -> None:
    assert ["warmgate_quota_degraded 1.0"] == seen(TeamMetrics(lambda: True))


def test_budgets_of_teams_and_keys_are_shown() -> None:
    statuses = [
        BudgetStatus("blue", None, "day", 50.0, 12.5),
        BudgetStatus("blue", "ci", "month", 9.0, 1.5),
        BudgetStatus("blue", None, "day", 500.0, 20.0, "tokens"),
        BudgetStatus("blue", "ci", "day", 90.0, 10.0, "tokens"),
    ]

    assert {
        'warmgate_team_budget_limit_usd{period="day",team="blue"} 50.0',
        'warmgate_team_budget_used_usd{period="day",team="blue"} 12.5',
        'warmgate_key_budget_limit_usd{key="ci",period="month",team="blue"} 9.0',
        'warmgate_key_budget_used_usd{key="ci",period="month",team="blue"} 1.5',
        'warmgate_team_budget_limit_tokens{period="day",team="blue"} 500.0',
        'warmgate_team_budget_used_tokens{period="day",team="blue"} 20.0',
        'warmgate_key_budget_limit_tokens{key="ci",period="day",team="blue"} 90.0',
        'warmgate_key_budget_used_tokens{key="ci",period="day",team="blue"} 10.0',
    } <= set(seen(TeamMetrics(lambda: False, lambda: statuses)))


def test_soft_budgets_of_teams_are_shown() -> None:
    statuses = [SoftBudgetStatus("blue", "team/usd_per_month", 1.25)]

    assert 'warmgate_team_soft_budget_used_ratio{limit="team/usd_per_month",team="blue"} 1.25' in seen(
        TeamMetrics(lambda: False, soft_budgets=lambda: statuses)
    )
