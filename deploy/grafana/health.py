"""The dashboard of health: what is broken, what was done about it, and what it costs."""

from deploy.grafana.choices import GATEWAYS, JOB, MODEL, NAMESPACE, OF_MODEL
from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panel import RATE, Panel, Query


def workers(metric: str, how: str = "max") -> list[Query]:
    return [Query(f"{how} by (model, worker) (warmgate_worker_{metric}{{{OF_MODEL}}})", "{{model}} {{worker}}")]


def backends(metric: str, how: str) -> list[Query]:
    return [Query(f"{how} by (backend) (warmgate_fallback_{metric}{{{GATEWAYS}}})", "{{backend}}")]


def discovered(metric: str, how: str = "max") -> list[Query]:
    return [
        Query(f"{how} by (model, source) (warmgate_discovery_{metric}{{{OF_MODEL}}})", "{{model}} {{source}}"),
    ]


def values_of(metric: str) -> list[Query]:
    """A gauge of each gateway."""
    return [Query(f"{metric}{{{GATEWAYS}}}", "{{instance}}")]


ALERTS = Row(
    "Alerts",
    [
        Panel(
            title="Alerts that fire",
            description="Of the rules that the chart ships, if Prometheus has them.",
            queries=[
                Query(
                    'sum by (alertname) (ALERTS{alertname=~"Warmgate.*",alertstate="firing"}) or vector(0)',
                    "{{alertname}}",
                )
            ],
            width=24,
            is_stacked=True,
        ),
    ],
)
WORKERS = Row(
    "Workers",
    [
        Panel(
            title="Up",
            description="0: no gateway reaches it.",
            queries=workers("up"),
            most=1,
        ),
        Panel(
            title="Breaker open",
            description="1: its failures keep requests away, on some gateway.",
            queries=workers("breaker_open"),
            most=1,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Draining or asleep",
            description="They get no requests, and that is meant so.",
            queries=[
                Query(f"max by (model, worker) (warmgate_worker_draining{{{OF_MODEL}}})", "draining {{worker}}"),
                Query(f"max by (model, worker) (warmgate_worker_asleep{{{OF_MODEL}}})", "asleep {{worker}}"),
            ],
            most=1,
        ),
        Panel(
            title="Retries",
            description="Attempts beyond a request's first.",
            queries=[Query(f"sum by (model) (rate(warmgate_retries_total{{{OF_MODEL}}}{RATE}))", "{{model}}")],
            unit="cps",
        ),
        Panel(
            title="Streams that went on elsewhere",
            description="Another worker went on where one had died.",
            queries=[
                Query(f"sum by (model) (rate(warmgate_streams_continued_total{{{OF_MODEL}}}{RATE}))", "{{model}}")
            ],
            unit="cps",
        ),
        Panel(
            title="No worker is there",
            description="Requests that wait for one.",
            queries=[Query(f"sum by (model) (warmgate_requests_without_worker{{{OF_MODEL}}})", "{{model}}")],
            thresholds=[(1, "red")],
        ),
    ],
)
FALLBACKS = Row(
    "Fallbacks",
    [
        Panel(
            title="Share of requests",
            description="That a fallback answered.",
            queries=[
                Query(
                    f"sum by (model) (rate(warmgate_fallbacks_total{{{OF_MODEL}}}{RATE}))"
                    f" / sum by (model) (rate(warmgate_requests_total{{{OF_MODEL}}}{RATE}))",
                    "{{model}}",
                )
            ],
            unit="percentunit",
            most=1,
            width=6,
        ),
        Panel(
            title="Requests to fallbacks",
            description="By outcome. left: by the caller; unused: it cannot serve them.",
            queries=[
                Query(
                    f"sum by (backend, outcome) (rate(warmgate_fallback_requests_total{{{OF_MODEL}}}{RATE}))",
                    "{{backend}} {{outcome}}",
                )
            ],
            unit="reqps",
            width=6,
        ),
        Panel(
            title="Passed over",
            description="Times that a fallback was not asked, by reason.",
            queries=[
                Query(
                    f"sum by (backend, reason) (rate(warmgate_fallback_skipped_total{{{OF_MODEL}}}{RATE}))",
                    "{{backend}} {{reason}}",
                )
            ],
            unit="reqps",
            width=6,
        ),
        Panel(
            title="Share of rates in use",
            description="Of what Bedrock allows: a tenth after a pause, then growing to 1.",
            queries=backends("rate_ratio", "min"),
            unit="percentunit",
            most=1,
            width=6,
        ),
        Panel(
            title="Canary",
            description="1: it answered when it was tried out last.",
            queries=backends("canary_ok", "min"),
            most=1,
            width=6,
        ),
        Panel(
            title="Age of the canary",
            description="Time since then.",
            queries=backends("canary_age_seconds", "max"),
            unit="s",
            width=6,
        ),
        Panel(
            title="Breaker open",
            description="1: its failures keep requests away, on some gateway.",
            queries=backends("breaker_open", "max"),
            most=1,
            width=6,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Legacy",
            description="1: AWS says that it is about to take the model away.",
            queries=backends("legacy", "max"),
            most=1,
            width=6,
            thresholds=[(1, "orange")],
        ),
    ],
)
STORES = Row(
    "Stores and replicas",
    [
        Panel(
            title="Limits without the store",
            description="1: limits are held without it.",
            queries=values_of("warmgate_quota_degraded"),
            most=1,
            width=6,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Keys without the store",
            description="1: changes of keys and teams cannot be heard.",
            queries=values_of("warmgate_key_store_unavailable"),
            most=1,
            width=6,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Store unfit",
            description="1: its data is lost, or its pepper or schema is another.",
            queries=values_of("warmgate_store_unfit"),
            most=1,
            width=6,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Replicas heard",
            description="By each gateway, itself among them; all should hear as many as there are.",
            queries=values_of("warmgate_replicas"),
            width=6,
        ),
        Panel(
            title="Lag of replicas",
            description="What the last sign of life took through Redis and back.",
            queries=values_of("warmgate_replica_lag_seconds"),
            unit="s",
            width=6,
        ),
        Panel(
            title="Messages of replicas",
            description="Sent, heard, and unreadable: of another version.",
            queries=[
                Query(
                    f"sum by (direction) (rate(warmgate_replica_messages_total{{{GATEWAYS}}}{RATE}))",
                    "{{direction}}",
                )
            ],
            unit="cps",
            width=6,
        ),
        Panel(
            title="Lost between replicas",
            description="Entries that reached no other gateway, and gaps in what was received.",
            queries=[
                Query(f"sum(rate(warmgate_replica_dropped_total{{{GATEWAYS}}}{RATE}))", "dropped"),
                Query(f"sum(rate(warmgate_replica_gaps_total{{{GATEWAYS}}}{RATE}))", "gaps"),
            ],
            unit="cps",
            width=6,
        ),
        Panel(
            title="Bookings of others",
            description="Number of open requests that other gateway replicas have sent to workers.",
            queries=values_of("warmgate_replica_bookings"),
            width=6,
        ),
    ],
)
CONFIGURATION = Row(
    "Configuration and discovery",
    [
        Panel(
            title="Last configuration",
            description="0: it was refused, and the one before is in force.",
            queries=values_of("warmgate_config_last_reload_successful"),
            most=1,
        ),
        Panel(
            title="Age of the configuration",
            description="Since it last took effect.",
            queries=[
                Query(f"time() - warmgate_config_last_applied_timestamp_seconds{{{GATEWAYS}}}", "{{instance}}"),
            ],
            unit="s",
        ),
        Panel(
            title="Waits for a restart",
            description="Settings that have changed in the file, and count after a restart.",
            queries=[
                Query(
                    f"sum by (setting) (warmgate_config_needs_restart{{{GATEWAYS}}}) or vector(0)",
                    "{{setting}}",
                )
            ],
        ),
        Panel(
            title="Workers found",
            description="By each source, draining ones among them.",
            queries=discovered("workers"),
        ),
        Panel(
            title="Last heard of workers",
            description="Time since the source was heard; the last set of workers stays meanwhile.",
            queries=discovered("age_seconds"),
            unit="s",
            thresholds=[(600, "red")],
        ),
        Panel(
            title="Sources heard",
            description="0: not once since the start.",
            queries=discovered("synced", "min"),
            most=1,
        ),
        Panel(
            title="Last set of workers",
            description="0: it was refused, and the one before stays.",
            queries=[
                Query(f"min by (model) (warmgate_discovery_last_update_successful{{{OF_MODEL}}})", "{{model}}"),
            ],
            most=1,
        ),
        Panel(
            title="Unanswered questions",
            description="Of each source.",
            queries=[
                Query(
                    f"sum by (model, source) (rate(warmgate_discovery_failures_total{{{OF_MODEL}}}{RATE}))",
                    "{{model}} {{source}}",
                )
            ],
            unit="cps",
        ),
        Panel(
            title="Sets of workers",
            description="Sets of workers that were found, by outcome.",
            queries=[
                Query(
                    f"sum by (model, outcome) (rate(warmgate_discovery_updates_total{{{OF_MODEL}}}{RATE}))",
                    "{{model}} {{outcome}}",
                )
            ],
            unit="cps",
        ),
    ],
)

HEALTH = Dashboard(
    name="health",
    title="Fallbacks and health",
    description="What is broken, and what was done about it: workers, fallbacks, stores, replicas, discovery.",
    choices=[NAMESPACE, JOB, MODEL],
    rows=[ALERTS, WORKERS, FALLBACKS, STORES, CONFIGURATION],
)
