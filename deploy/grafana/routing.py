"""Dashboard of routing: reasons for decisions, predicted caches, and the accuracy of predictions."""

from deploy.grafana.choices import GATEWAYS, JOB, MODEL, NAMESPACE, OF_MODEL
from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panel import RATE, Panel, Query


def by(labels: str, metric: str, selector: str = GATEWAYS) -> str:
    """Return a PromQL expression for the rate of a counter, summed by *labels*."""
    return f"sum by ({labels}) (rate({metric}{{{selector}}}{RATE}))"


def per_worker(metric: str, how: str = "max") -> list[Query]:
    """Return a query for a gauge that each gateway has for each worker."""
    return [Query(f"{how} by (model, worker) (warmgate_worker_{metric}{{{OF_MODEL}}})", "{{model}} {{worker}}")]


DECISIONS = Row(
    "Decisions",
    [
        Panel(
            title="Decisions by reason",
            description="Routing decisions by reason: hit (no other worker held more of the prompt), spread"
            " (another worker held more, but cost more), cold (no worker held any of the prompt) or"
            " none (no worker was available).",
            queries=[Query(by("reason", "warmgate_decisions_total", OF_MODEL), "{{reason}}")],
            unit="reqps",
            is_stacked=True,
            width=6,
        ),
        Panel(
            title="Decisions by strategy",
            description="Routing decisions by strategy. A strategy that a caller selects with the header"
            " x-warmgate-strategy is counted under its own name.",
            queries=[Query(by("strategy", "warmgate_decisions_total", OF_MODEL), "{{strategy}}")],
            unit="reqps",
            is_stacked=True,
            width=6,
        ),
        Panel(
            title="Strategy in effect",
            description="Number of gateways by the strategy in effect for each model. While no engine publishes"
            " KV events, kv_aware works like prefix_aware.",
            queries=[
                Query(
                    f"sum by (model, policy) (warmgate_policy_effective{{{OF_MODEL}}})",
                    "{{model}}: {{policy}}",
                )
            ],
            width=6,
        ),
        Panel(
            title="Strategies not in effect",
            description="Models whose strategy in effect differs from the configured strategy, counted per gateway.",
            queries=[
                Query(
                    f"count(warmgate_policy_configured{{{OF_MODEL}}} unless on (instance, model, policy)"
                    f" warmgate_policy_effective{{{OF_MODEL}}}) or vector(0)",
                    "models",
                )
            ],
            width=6,
            thresholds=[(1, "red")],
        ),
    ],
)
BELIEFS = Row(
    "Predicted caches",
    [
        Panel(
            title="Index memory",
            description="Memory of the index of predicted prefixes and of the index of KV events. At its limit,"
            " each index drops entries.",
            queries=[
                Query(f"warmgate_index_bytes{{{GATEWAYS}}}", "{{instance}} predicted"),
                Query(f"warmgate_confirmed_bytes{{{GATEWAYS}}}", "{{instance}} events"),
                Query(f"max(warmgate_index_max_bytes{{{GATEWAYS}}})", "limit of predicted"),
                Query(f"max(warmgate_confirmed_max_bytes{{{GATEWAYS}}})", "limit of events"),
            ],
            unit="bytes",
        ),
        Panel(
            title="Blocks by worker",
            description="KV cache blocks that each worker is predicted to hold.",
            queries=per_worker("index_blocks"),
        ),
        Panel(
            title="Predicted cached tokens, mean",
            description="Mean number of prompt tokens that were predicted to be cached on the chosen worker.",
            queries=[
                Query(
                    f"{by('model', 'warmgate_predicted_cached_tokens_sum', OF_MODEL)}"
                    f" / {by('model', 'warmgate_predicted_cached_tokens_count', OF_MODEL)}",
                    "{{model}}",
                )
            ],
        ),
    ],
)
EVENTS = Row(
    "KV events of engines",
    [
        Panel(
            title="Event streams by state",
            description="KV event streams of workers by state: live (complete), catching_up (replaying missed"
            " events), stale (events were lost) or untrusted (events cannot be received or decoded).",
            queries=[Query(f"sum by (state) (warmgate_kv_stream_state{{{GATEWAYS}}})", "{{state}}")],
            is_stacked=True,
        ),
        Panel(
            title="Reasons why streams are not live",
            description="Workers whose KV event stream is not live, with the reason.",
            queries=[
                Query(
                    f"sum by (worker, reason) (warmgate_kv_stream_doubt{{{GATEWAYS}}}) or vector(0)",
                    "{{worker}} {{reason}}",
                )
            ],
        ),
        Panel(
            title="Event lag",
            description="Age of each worker's last batch of KV events when the gateway applied it. The clocks of"
            " both machines must agree.",
            queries=[Query(f"max by (worker) (warmgate_kv_stream_lag_seconds{{{GATEWAYS}}})", "{{worker}}")],
            unit="s",
        ),
        Panel(
            title="Events",
            description="KV events received from engines, by kind.",
            queries=[Query(by("kind", "warmgate_kv_events_total"), "{{kind}}")],
            unit="cps",
        ),
        Panel(
            title="Event batches",
            description="Batches of KV events by outcome. All outcomes except `taken` and `duplicate` need attention.",
            queries=[Query(by("kind", "warmgate_kv_batches_total"), "{{kind}}")],
            unit="cps",
        ),
        Panel(
            title="Stream transitions",
            description="Transitions of KV event streams: connections, gaps, replays, engine restarts and index"
            " rebuilds.",
            queries=[Query(by("kind", "warmgate_kv_stream_transitions_total"), "{{kind}}")],
            unit="cps",
        ),
        Panel(
            title="Unused events",
            description="KV events that the gateway ignored or rejected, by reason.",
            queries=[Query(f"{by('kind', 'warmgate_kv_unused_total')} or vector(0)", "{{kind}}")],
            unit="cps",
        ),
        Panel(
            title="Unexpected blocks",
            description="KV cache blocks that engines reported in an unexpected way, by kind. The kinds `parked`"
            " and `attached` are normal.",
            queries=[Query(by("kind", "warmgate_index_anomalies_total"), "{{kind}}")],
            unit="cps",
        ),
    ],
)
ACCURACY = Row(
    "Accuracy",
    [
        Panel(
            title="Accuracy of predicted hits",
            description="Accuracy of predicted cache hits, from 0 to 1. A value of 1 means that engines report"
            " exactly the predicted hits.",
            queries=per_worker("hit_accuracy_ratio", "min"),
            unit="percentunit",
            most=1,
            width=6,
        ),
        Panel(
            title="Predicted and reported tokens",
            description="Cached prompt tokens per second, as predicted by the gateway and as reported by engines.",
            queries=[
                Query(
                    by("kind", "warmgate_tokens_total", f'{OF_MODEL},kind=~"predicted|cached"'),
                    "{{kind}}",
                )
            ],
            unit="short",
            width=6,
        ),
        Panel(
            title="Wrong predictions",
            description="1 while predicted cache hits of a worker are mostly wrong. The gateway then ignores the"
            " KV events of the worker.",
            queries=per_worker("hit_alarm"),
            width=6,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Exact tokens",
            description="Prompts whose exact tokens were known, and other prompts by the reason why not.",
            queries=[Query(by("outcome", "warmgate_exact_prompts_total", OF_MODEL), "{{outcome}}")],
            unit="reqps",
            is_stacked=True,
            width=6,
        ),
    ],
)
LOAD = Row(
    "Load of workers",
    [
        Panel(
            title="Requests on workers",
            description="Requests in progress on each worker, summed over all gateways.",
            queries=per_worker("in_flight", "sum"),
            width=6,
        ),
        Panel(
            title="Queued prefill work",
            description="Predicted seconds of queued prefill work ahead of a new request, by worker.",
            queries=per_worker("backlog_seconds"),
            unit="s",
            width=6,
        ),
        Panel(
            title="Prefill rate",
            description="Estimated number of prompt tokens that each worker computes per second.",
            queries=per_worker("prefill_tokens_per_second", "avg"),
            width=6,
        ),
        Panel(
            title="KV cache in use",
            description="Share of each engine's KV cache in use, as the engine reports it.",
            queries=per_worker("engine_kv_usage_ratio"),
            unit="percentunit",
            most=1,
            width=6,
        ),
    ],
)

ROUTING = Dashboard(
    name="routing",
    title="Routing and caches",
    description="Reasons of routing decisions, predicted caches, and the accuracy of predictions.",
    choices=[NAMESPACE, JOB, MODEL],
    rows=[DECISIONS, BELIEFS, EVENTS, ACCURACY, LOAD],
)
