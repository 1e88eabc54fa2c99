"""Dashboard of teams: usage, cost, savings by caches, and requests rejected by limits."""

from deploy.grafana.choices import GATEWAYS, JOB, MODEL, NAMESPACE, OF_MODEL, TEAM
from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panel import RATE, Panel, Query

OF_TEAM = f'{GATEWAYS},team=~"$team"'
COST = f"warmgate_team_cost_usd_total{{{OF_TEAM}}}"
BY_FALLBACKS = f'warmgate_team_cost_usd_total{{{OF_TEAM},backend="fallback"}}'
SAVED = f"warmgate_team_saved_usd_total{{{OF_TEAM}}}"
RANGE = "[$__range]"
"""Grafana's variable for the selected time range."""
COMPUTES = f"avg by (model) (warmgate_worker_prefill_tokens_per_second{{{OF_MODEL}}})"
"""PromQL expression for the prompt tokens that one worker computes per second."""


def hourly(what: str, counter: str) -> str:
    """Return a PromQL expression for a cost counter in US dollars per hour."""
    return f"sum by ({what}) (rate({counter}{RATE})) * 3600"


SUMS = Row(
    "Totals",
    [
        Panel(
            title="Cost",
            description="Cost of all requests in the selected time range, in US dollars at the configured prices.",
            queries=[Query(f"sum(increase({COST}{RANGE}))")],
            unit="currencyUSD",
            kind="stat",
            width=4,
            decimals=2,
        ),
        Panel(
            title="Cost of fallbacks",
            description="Cost of requests that fallbacks answered, in US dollars, in the selected time range.",
            queries=[Query(f"sum(increase({BY_FALLBACKS}{RANGE}))")],
            unit="currencyUSD",
            kind="stat",
            width=4,
            decimals=2,
        ),
        Panel(
            title="Saved by caches",
            description="US dollars saved by cached tokens in the selected time range.",
            queries=[Query(f"sum(increase({SAVED}{RANGE}))")],
            unit="currencyUSD",
            kind="stat",
            width=4,
            decimals=2,
        ),
        Panel(
            title="Share saved",
            description="Savings by cached tokens, as a share of what all requests would have cost without caches.",
            queries=[
                Query(f"sum(increase({SAVED}{RANGE})) / (sum(increase({SAVED}{RANGE})) + sum(increase({COST}{RANGE})))")
            ],
            unit="percentunit",
            kind="stat",
            width=4,
        ),
        Panel(
            title="Engine time saved",
            description="Time that one worker would need to compute all cached tokens in the selected time"
            " range. The sum covers all teams and requests without a team. For GPU time, multiply by"
            " the GPUs per worker.",
            queries=[
                Query(
                    f'sum(sum by (model) (increase(warmgate_tokens_total{{{OF_MODEL},kind="cached"}}{RANGE}))'
                    f" / {COMPUTES})"
                )
            ],
            unit="s",
            kind="stat",
            width=4,
        ),
        Panel(
            title="Rejected by limits",
            description="Requests that a limit rejected in the selected time range.",
            queries=[Query(f"sum(increase(warmgate_team_refused_total{{{OF_TEAM}}}{RANGE})) or vector(0)")],
            kind="stat",
            width=4,
            decimals=0,
        ),
    ],
)
USE = Row(
    "Use",
    [
        Panel(
            title="Requests",
            description="Completed requests per second, by team.",
            queries=[Query(f"sum by (team) (rate(warmgate_team_requests_total{{{OF_TEAM}}}{RATE}))", "{{team}}")],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Prompt tokens",
            description="Prompt tokens per second, by team. Cached tokens are included.",
            queries=[
                Query(f'sum by (team) (rate(warmgate_team_tokens_total{{{OF_TEAM},kind="prompt"}}{RATE}))', "{{team}}")
            ],
            is_stacked=True,
        ),
        Panel(
            title="Output tokens",
            description="Generated tokens per second, by team.",
            queries=[
                Query(
                    f'sum by (team) (rate(warmgate_team_tokens_total{{{OF_TEAM},kind="completion"}}{RATE}))',
                    "{{team}}",
                )
            ],
            is_stacked=True,
        ),
    ],
)
LIMITS = Row(
    "Limits",
    [
        Panel(
            title="Rejected by limits",
            description="Requests per second that a limit rejected, by team and limit.",
            queries=[
                Query(
                    f"sum by (team, limit) (rate(warmgate_team_refused_total{{{OF_TEAM}}}{RATE}))",
                    "{{team}} {{limit}}",
                )
            ],
            unit="reqps",
        ),
        Panel(
            title="Requests by status",
            description="Completed requests by team and HTTP status. Status 429 means that a rate limit or a"
            " budget was reached.",
            queries=[
                Query(
                    f"sum by (team, status) (rate(warmgate_team_requests_total{{{OF_TEAM}}}{RATE}))",
                    "{{team}} {{status}}",
                )
            ],
            unit="reqps",
        ),
        Panel(
            title="Waiting requests",
            description="Requests of each team that wait because all workers are busy.",
            queries=[
                Query(
                    f'sum by (team) (warmgate_team_requests_waiting{{{OF_MODEL},team=~"$team"}}) or vector(0)',
                    "{{team}}",
                )
            ],
        ),
    ],
)
MONEY = Row(
    "Money",
    [
        Panel(
            title="Cost per hour",
            description="Cost per hour in US dollars, by team and kind of backend.",
            queries=[Query(hourly("team, backend", COST), "{{team}} {{backend}}")],
            unit="currencyUSD",
            is_stacked=True,
        ),
        Panel(
            title="Saved by caches per hour",
            description="US dollars per hour saved by cached tokens, by team.",
            queries=[Query(hourly("team", SAVED), "{{team}}")],
            unit="currencyUSD",
            is_stacked=True,
        ),
        Panel(
            title="Fallbacks within the last hour",
            description="Cost of fallbacks in the last hour in US dollars, by model, and the maximum cost of"
            " fallback requests in progress.",
            queries=[
                Query(f"sum by (model) (warmgate_fallback_spend_usd{{{OF_MODEL}}})", "{{model}} spent"),
                Query(f"sum by (model) (warmgate_fallback_held_usd{{{OF_MODEL}}})", "{{model}} in progress"),
            ],
            unit="currencyUSD",
        ),
        Panel(
            title="Workers saved by caches",
            description="Number of workers that would be busy computing the cached tokens, by model.",
            queries=[
                Query(
                    f'sum by (model) (rate(warmgate_tokens_total{{{OF_MODEL},kind="cached"}}{RATE})) / {COMPUTES}',
                    "{{model}}",
                )
            ],
        ),
        Panel(
            title="Waiting ledger entries",
            description="Usage entries that wait to be written to the ledger, by gateway.",
            queries=[Query(f"warmgate_ledger_waiting{{{GATEWAYS}}}", "{{instance}}")],
        ),
        Panel(
            title="Lost ledger entries",
            description="Usage entries that could not be written to the ledger and are lost.",
            queries=[
                Query(
                    f"sum by (instance) (increase(warmgate_ledger_dropped_total{{{GATEWAYS}}}{RATE}))", "{{instance}}"
                )
            ],
            thresholds=[(1, "red")],
        ),
    ],
)

TEAMS = Dashboard(
    name="teams",
    title="Teams and money",
    description="Usage and cost of teams, savings by caches, and requests rejected by limits.",
    choices=[NAMESPACE, JOB, TEAM, MODEL],
    rows=[SUMS, USE, LIMITS, MONEY],
)
