"""Dashboard of the health of workers, fallbacks, stores, replicas and discovery."""

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
    """Return a query for a gauge of each gateway."""
    return [Query(f"{metric}{{{GATEWAYS}}}", "{{instance}}")]


ALERTS = Row(
    "Alerts",
    [
        Panel(
            title="Firing alerts",
            description="Warmgate alerts that fire now. Prometheus must have loaded the alert rules of the Helm chart.",
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
            title="Workers up",
            description="1 if at least one gateway reaches the worker, 0 if no gateway does.",
            queries=workers("up"),
            most=1,
        ),
        Panel(
            title="Open circuit breakers of workers",
            description="1 if the worker failed so often that at least one gateway sends it no requests.",
            queries=workers("breaker_open"),
            most=1,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Draining or asleep",
            description="1 for workers that are draining or asleep, and therefore get no new requests.",
            queries=[
                Query(f"max by (model, worker) (warmgate_worker_draining{{{OF_MODEL}}})", "draining {{worker}}"),
                Query(f"max by (model, worker) (warmgate_worker_asleep{{{OF_MODEL}}})", "asleep {{worker}}"),
            ],
            most=1,
        ),
        Panel(
            title="Retries",
            description="Retries per second: attempts after the first one of each request.",
            queries=[Query(f"sum by (model) (rate(warmgate_retries_total{{{OF_MODEL}}}{RATE}))", "{{model}}")],
            unit="cps",
        ),
        Panel(
            title="Continued streams",
            description="Streams per second that another worker continued after the first worker failed.",
            queries=[
                Query(f"sum by (model) (rate(warmgate_streams_continued_total{{{OF_MODEL}}}{RATE}))", "{{model}}")
            ],
            unit="cps",
        ),
        Panel(
            title="Requests without a worker",
            description="Requests that wait because their model has no available worker.",
            queries=[Query(f"sum by (model) (warmgate_requests_without_worker{{{OF_MODEL}}})", "{{model}}")],
            thresholds=[(1, "red")],
        ),
    ],
)
FALLBACKS = Row(
    "Fallbacks",
    [
        Panel(
            title="Share of fallbacks",
            description="Share of a model's requests that fallbacks answered.",
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
            description="Requests sent to fallbacks, by outcome: answered, failed, left (the client"
            " disconnected) or unused (the fallback cannot serve the request).",
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
            title="Skipped fallbacks",
            description="Number of times per second that the gateway skipped a fallback, by reason.",
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
            title="Usable rate limit",
            description="Share of the fallback's rate limits that the gateway uses: 0.1 after a pause, then"
            " growing to 1.",
            queries=backends("rate_ratio", "min"),
            unit="percentunit",
            most=1,
            width=6,
        ),
        Panel(
            title="Canary requests",
            description="1 if the fallback answered its last canary request, 0 if it did not.",
            queries=backends("canary_ok", "min"),
            most=1,
            width=6,
        ),
        Panel(
            title="Age of the last canary request",
            description="Time since the last canary request to each fallback.",
            queries=backends("canary_age_seconds", "max"),
            unit="s",
            width=6,
        ),
        Panel(
            title="Open circuit breakers of fallbacks",
            description="1 if the fallback failed so often that at least one gateway sends it no requests.",
            queries=backends("breaker_open", "max"),
            most=1,
            width=6,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Legacy models",
            description="1 if AWS marks the model as legacy, which means that AWS will retire the model.",
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
            description="1 if the gateway cannot use the store and grants only its own share of the limits.",
            queries=values_of("warmgate_quota_degraded"),
            most=1,
            width=6,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Keys without the store",
            description="1 if changes to keys and teams do not reach the gateway, so that the last known keys"
            " stay valid.",
            queries=values_of("warmgate_key_store_unavailable"),
            most=1,
            width=6,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Unusable store",
            description="1 if the store has lost its data, or has a different pepper or schema version than the"
            " gateway expects.",
            queries=values_of("warmgate_store_unfit"),
            most=1,
            width=6,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Live replicas",
            description="Live gateway replicas that each gateway knows, including itself. All gateways should"
            " report the same number.",
            queries=values_of("warmgate_replicas"),
            width=6,
        ),
        Panel(
            title="Replica lag",
            description="Seconds from sending the last message to the other replicas through Redis to receiving it.",
            queries=values_of("warmgate_replica_lag_seconds"),
            unit="s",
            width=6,
        ),
        Panel(
            title="Replica messages",
            description="Messages exchanged with other gateway replicas: sent, received, and unreadable because"
            " of a different version.",
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
            title="Lost replica messages",
            description="Log entries that no other gateway received, and gaps in the log entries of other gateways.",
            queries=[
                Query(f"sum(rate(warmgate_replica_dropped_total{{{GATEWAYS}}}{RATE}))", "dropped"),
                Query(f"sum(rate(warmgate_replica_gaps_total{{{GATEWAYS}}}{RATE}))", "gaps"),
            ],
            unit="cps",
            width=6,
        ),
        Panel(
            title="Requests of other replicas",
            description="Open requests that other gateway replicas have sent to workers.",
            queries=values_of("warmgate_replica_bookings"),
            width=6,
        ),
    ],
)
CONFIGURATION = Row(
    "Configuration and discovery",
    [
        Panel(
            title="Last configuration reload",
            description="0 if the last configuration was rejected and the previous one stays in effect, otherwise 1.",
            queries=values_of("warmgate_config_last_reload_successful"),
            most=1,
        ),
        Panel(
            title="Age of the configuration",
            description="Time since a configuration last took effect.",
            queries=[
                Query(f"time() - warmgate_config_last_applied_timestamp_seconds{{{GATEWAYS}}}", "{{instance}}"),
            ],
            unit="s",
        ),
        Panel(
            title="Settings that need a restart",
            description="Settings that were changed in the configuration file, but take effect only after a restart.",
            queries=[
                Query(
                    f"sum by (setting) (warmgate_config_needs_restart{{{GATEWAYS}}}) or vector(0)",
                    "{{setting}}",
                )
            ],
        ),
        Panel(
            title="Workers found",
            description="Workers found by each discovery source, including draining workers.",
            queries=discovered("workers"),
        ),
        Panel(
            title="Age of discovery",
            description="Time since each discovery source last answered. Until it answers again, the last known"
            " workers stay in use.",
            queries=discovered("age_seconds"),
            unit="s",
            thresholds=[(600, "red")],
        ),
        Panel(
            title="Discovery sources that answered",
            description="1 if the discovery source has answered since the gateway started, 0 if it never did.",
            queries=discovered("synced", "min"),
            most=1,
        ),
        Panel(
            title="Last discovery result",
            description="0 if the last set of workers found was rejected and the previous set stays in use,"
            " otherwise 1.",
            queries=[
                Query(f"min by (model) (warmgate_discovery_last_update_successful{{{OF_MODEL}}})", "{{model}}"),
            ],
            most=1,
        ),
        Panel(
            title="Failed discovery queries",
            description="Failed queries per second to each discovery source.",
            queries=[
                Query(
                    f"sum by (model, source) (rate(warmgate_discovery_failures_total{{{OF_MODEL}}}{RATE}))",
                    "{{model}} {{source}}",
                )
            ],
            unit="cps",
        ),
        Panel(
            title="Discovery results",
            description="Sets of workers found by discovery, by outcome.",
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
    description="Health of workers, fallbacks, stores, gateway replicas and discovery.",
    choices=[NAMESPACE, JOB, MODEL],
    rows=[ALERTS, WORKERS, FALLBACKS, STORES, CONFIGURATION],
)
