"""Metrics about teams: requests, tokens, cost, and requests that limits rejected.

Teams are few enough for metric labels. Usage by key, user and project is in the ledger.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.telemetry.counters import CountersByTeam, TeamCounters
from gateway.tenancy.quota.budgets import BudgetStatus
from gateway.tenancy.quota.soft_budgets import SoftBudgetStatus


class TeamMetrics(Collector):
    """Prometheus collector for teams, and an observer of completed requests.

    *is_degraded* returns True while limits are enforced without the store. *budgets* returns the status of the budgets
    of teams and keys, *soft_budgets* that of budgets that only warn.
    """

    def __init__(
        self,
        is_degraded: Callable[[], bool],
        budgets: Callable[[], Sequence[BudgetStatus]] = tuple,
        soft_budgets: Callable[[], Sequence[SoftBudgetStatus]] = tuple,
    ) -> None:
        self._is_degraded = is_degraded
        self._budgets = budgets
        self._soft_budgets = soft_budgets
        counts = CountersByTeam()
        self.counters: Mapping[str, TeamCounters] = counts.counters
        """Counters of completed requests by team."""
        # The compiled method itself: a method here that called it would be interpreted.
        self.observe = counts.observe

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "warmgate_quota_degraded",
            "1 while keys and limits are enforced without the store.",
            float(self._is_degraded()),
        )

        def counter(
            name: str, text: str, samples: Callable[[TeamCounters], Iterable[tuple[str, float]]], label: str
        ) -> Metric:
            family = CounterMetricFamily(f"warmgate_team_{name}", text, labels=("team", label))
            for team, counters in self.counters.items():
                for value, count in samples(counters):
                    family.add_metric((team, value), count)
            return family

        yield counter(
            "requests",
            "Completed requests of a team by HTTP status.",
            lambda t: [(str(status), n) for status, n in t.requests.items()],
            "status",
        )
        yield counter(
            "refused", "Requests of a team rejected by a limit, by limit.", lambda t: t.refused.items(), "limit"
        )
        yield counter(
            "tokens",
            "Tokens of a team by kind: prompt, cached, completion.",
            lambda t: [("prompt", t.prompt_tokens), ("cached", t.cached_tokens), ("completion", t.completion_tokens)],
            "kind",
        )
        yield counter(
            "cost_usd",
            "Cost of a team in US dollars, by kind of backend.",
            lambda t: [("workers", t.workers_usd), ("fallback", t.fallback_usd)],
            "backend",
        )
        saved = CounterMetricFamily("warmgate_team_saved_usd", "US dollars saved by cached tokens.", labels=("team",))
        for team, counters in self.counters.items():
            saved.add_metric((team,), counters.saved_usd)
        yield saved
        yield from _of_budgets(self._budgets())
        yield _of_soft_budgets(self._soft_budgets())


def _of_budgets(statuses: Sequence[BudgetStatus]) -> Iterator[Metric]:
    """Yield the limit and use of each budget in each unit, as two gauges for teams and two gauges for keys."""
    units: dict[Literal["usd", "tokens"], str] = {"usd": "US dollars", "tokens": "Tokens"}
    for unit, name in units.items():
        of_teams = GaugeMetricFamily(
            f"warmgate_team_budget_limit_{unit}",
            f"{name} of a team's budget for the period.",
            labels=("team", "period"),
        )
        used_by_teams = GaugeMetricFamily(
            f"warmgate_team_budget_used_{unit}",
            f"{name} that a team has used or reserved in the current period.",
            labels=("team", "period"),
        )
        of_keys = GaugeMetricFamily(
            f"warmgate_key_budget_limit_{unit}",
            f"{name} of a key's budget for the period.",
            labels=("team", "key", "period"),
        )
        used_by_keys = GaugeMetricFamily(
            f"warmgate_key_budget_used_{unit}",
            f"{name} that a key has used or reserved in the current period.",
            labels=("team", "key", "period"),
        )
        for each in statuses:
            if each.unit != unit:
                continue
            if each.key is None:
                of_teams.add_metric((each.team, each.period), each.limit)
                used_by_teams.add_metric((each.team, each.period), each.used)
            else:
                of_keys.add_metric((each.team, each.key, each.period), each.limit)
                used_by_keys.add_metric((each.team, each.key, each.period), each.used)
        yield from (of_teams, used_by_teams, of_keys, used_by_keys)


def _of_soft_budgets(statuses: Sequence[SoftBudgetStatus]) -> Metric:
    """Return the use of soft budgets by team and label. Names of keys and models would give too many label values."""
    family = GaugeMetricFamily(
        "warmgate_team_soft_budget_used_ratio",
        "Used fraction of a team's soft budget. The highest of several budgets with the same labels is shown.",
        labels=("team", "limit"),
    )
    for each in statuses:
        family.add_metric((each.team, each.label), each.used_ratio)
    return family
