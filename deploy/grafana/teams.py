"""The dashboard of teams: usage, cost, savings by caches, and refusals by limits."""

from deploy.grafana.choices import GATEWAYS, JOB, MODEL, NAMESPACE, OF_MODEL, TEAM
from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panel import RATE, Panel, Query

OF_TEAM = f'{GATEWAYS},team=~"$team"'
COST = f"warmgate_team_cost_usd_total{{{OF_TEAM}}}"
BY_FALLBACKS = f'warmgate_team_cost_usd_total{{{OF_TEAM},backend="fallback"}}'
SAVED = f"warmgate_team_saved_usd_total{{{OF_TEAM}}}"
RANGE = "[$__range]"
"""All that the dashboard shows."""
COMPUTES = f"avg by (model) (warmgate_worker_prefill_tokens_per_second{{{OF_MODEL}}})"
"""Prompt tokens per second of one worker."""


def hourly(what: str, counter: str) -> str:
    """US dollars per hour."""
    return f"sum by ({what}) (rate({counter}{RATE})) * 3600"


SUMS = Row(
    "In all",
    [
        Panel(
            title="Spent",
            description="US dollars in the time shown, by the prices of settings.",
            queries=[Query(f"sum(increase({COST}{RANGE}))")],
            unit="currencyUSD",
            kind="stat",
            width=4,
            decimals=2,
        ),
        Panel(
            title="Of it, fallbacks",
            description="US dollars that answers of fallbacks cost.",
            queries=[Query(f"sum(increase({BY_FALLBACKS}{RANGE}))")],
            unit="currencyUSD",
            kind="stat",
            width=4,
            decimals=2,
        ),
        Panel(
            title="Saved by caches",
            description="US dollars that cached tokens did not cost in the time shown.",
            queries=[Query(f"sum(increase({SAVED}{RANGE}))")],
            unit="currencyUSD",
            kind="stat",
            width=4,
            decimals=2,
        ),
        Panel(
            title="Share saved",
            description="Of what it would have cost without caches.",
            queries=[
                Query(f"sum(increase({SAVED}{RANGE})) / (sum(increase({SAVED}{RANGE})) + sum(increase({COST}{RANGE})))")
            ],
            unit="percentunit",
            kind="stat",
            width=4,
        ),
        Panel(
            title="GPU time saved",
            description="Cached tokens in the time shown, at the rate at which a worker computes prompts. A worker is"
            " one engine: multiply by its GPUs. Of all teams, and of requests without one.",
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
            title="Refused",
            description="Requests that a limit turned away in the time shown.",
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
            description="By team.",
            queries=[Query(f"sum by (team) (rate(warmgate_team_requests_total{{{OF_TEAM}}}{RATE}))", "{{team}}")],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Prompt tokens",
            description="By team, cached ones among them.",
            queries=[
                Query(f'sum by (team) (rate(warmgate_team_tokens_total{{{OF_TEAM},kind="prompt"}}{RATE}))', "{{team}}")
            ],
            is_stacked=True,
        ),
        Panel(
            title="Output tokens",
            description="By team.",
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
            title="Refused",
            description="Requests that a limit turned away, by its scope and name.",
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
            description="429 for limits of rate, 402 for budgets.",
            queries=[
                Query(
                    f"sum by (team, status) (rate(warmgate_team_requests_total{{{OF_TEAM}}}{RATE}))",
                    "{{team}} {{status}}",
                )
            ],
            unit="reqps",
        ),
        Panel(
            title="Held in the fair queue",
            description="Requests of each team that wait for their turn.",
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
            description="US dollars, by team and by who answered.",
            queries=[Query(hourly("team, backend", COST), "{{team}} {{backend}}")],
            unit="currencyUSD",
            is_stacked=True,
        ),
        Panel(
            title="Saved by caches per hour",
            description="US dollars that cached tokens did not cost.",
            queries=[Query(hourly("team", SAVED), "{{team}}")],
            unit="currencyUSD",
            is_stacked=True,
        ),
        Panel(
            title="Fallbacks within the last hour",
            description="US dollars by model, and what requests on their way may cost at most. Budgets are per hour.",
            queries=[
                Query(f"sum by (model) (warmgate_fallback_spend_usd{{{OF_MODEL}}})", "{{model}} spent"),
                Query(f"sum by (model) (warmgate_fallback_held_usd{{{OF_MODEL}}})", "{{model}} on the way"),
            ],
            unit="currencyUSD",
        ),
        Panel(
            title="GPU seconds saved per second",
            description="Workers that would be busy with prompts that caches had.",
            queries=[
                Query(
                    f'sum by (model) (rate(warmgate_tokens_total{{{OF_MODEL},kind="cached"}}{RATE})) / {COMPUTES}',
                    "{{model}}",
                )
            ],
        ),
        Panel(
            title="Not in the ledger yet",
            description="Entries that wait to be written, by gateway.",
            queries=[Query(f"warmgate_ledger_waiting{{{GATEWAYS}}}", "{{instance}}")],
        ),
        Panel(
            title="Lost to the ledger",
            description="Entries that could not be written.",
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
    description="Who asks for how much, what that costs, what caches saved, and whom limits turned away.",
    choices=[NAMESPACE, JOB, TEAM, MODEL],
    rows=[SUMS, USE, LIMITS, MONEY],
)
