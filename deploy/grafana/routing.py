"""The dashboard of routing: reasons of decisions, predicted caches, and the accuracy of predictions."""

from deploy.grafana.choices import GATEWAYS, JOB, MODEL, NAMESPACE, OF_MODEL
from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panel import RATE, Panel, Query


def by(labels: str, metric: str, selector: str = GATEWAYS) -> str:
    """A counter's rate, summed up."""
    return f"sum by ({labels}) (rate({metric}{{{selector}}}{RATE}))"


def per_worker(metric: str, how: str = "max") -> list[Query]:
    """A gauge that each gateway has of each worker."""
    return [Query(f"{how} by (model, worker) (warmgate_worker_{metric}{{{OF_MODEL}}})", "{{model}} {{worker}}")]


DECISIONS = Row(
    "Decisions",
    [
        Panel(
            title="By reason",
            description="hit: no other worker held more of the prompt; spread: another did, but cost more; cold: none"
            " held any; none: there was no worker.",
            queries=[Query(by("reason", "warmgate_decisions_total", OF_MODEL), "{{reason}}")],
            unit="reqps",
            is_stacked=True,
            width=6,
        ),
        Panel(
            title="By strategy",
            description="What callers may ask for with x-warmgate-strategy is counted by what they asked for.",
            queries=[Query(by("strategy", "warmgate_decisions_total", OF_MODEL), "{{strategy}}")],
            unit="reqps",
            is_stacked=True,
            width=6,
        ),
        Panel(
            title="Policy that is effective",
            description="Gateways on which the strategy of a model comes to this. kv_aware ranks as prefix_aware while"
            " no engine publishes KV events.",
            queries=[
                Query(
                    f"sum by (model, policy) (warmgate_policy_effective{{{OF_MODEL}}})",
                    "{{model}}: {{policy}}",
                )
            ],
            width=6,
        ),
        Panel(
            title="Not as configured",
            description="Models, by gateway, whose strategy comes to something else than settings name.",
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
    "What is known of caches",
    [
        Panel(
            title="Memory of the indexes",
            description="The prefix index, and the index of the engines' events; both begin to forget at their limits.",
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
            description="That it is believed to hold.",
            queries=per_worker("index_blocks"),
        ),
        Panel(
            title="Matched blocks, mean",
            description="Leading blocks of a prompt that the chosen worker was believed to hold.",
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
    "What engines tell",
    [
        Panel(
            title="Streams by state",
            description="live: all is heard; catching_up; stale: something was never heard; untrusted: nothing can be"
            " heard or understood.",
            queries=[Query(f"sum by (state) (warmgate_kv_stream_state{{{GATEWAYS}}})", "{{state}}")],
            is_stacked=True,
        ),
        Panel(
            title="Doubts",
            description="Why a stream cannot be live, by worker.",
            queries=[
                Query(
                    f"sum by (worker, reason) (warmgate_kv_stream_doubt{{{GATEWAYS}}}) or vector(0)",
                    "{{worker}} {{reason}}",
                )
            ],
        ),
        Panel(
            title="Lag",
            description="Age of the last batch when it was taken in, by the clocks of both machines.",
            queries=[Query(f"max by (worker) (warmgate_kv_stream_lag_seconds{{{GATEWAYS}}})", "{{worker}}")],
            unit="s",
        ),
        Panel(
            title="Events",
            description="Events of the engines, by kind.",
            queries=[Query(by("kind", "warmgate_kv_events_total"), "{{kind}}")],
            unit="cps",
        ),
        Panel(
            title="Batches",
            description="Batches by outcome; all but `taken` and `duplicate` need attention.",
            queries=[Query(by("kind", "warmgate_kv_batches_total"), "{{kind}}")],
            unit="cps",
        ),
        Panel(
            title="Turns",
            description="Connections, gaps, replays, restarts of engines, and rebuilds.",
            queries=[Query(by("kind", "warmgate_kv_stream_transitions_total"), "{{kind}}")],
            unit="cps",
        ),
        Panel(
            title="Unused events",
            description="Of no use here, or not understood.",
            queries=[Query(f"{by('kind', 'warmgate_kv_unused_total')} or vector(0)", "{{kind}}")],
            unit="cps",
        ),
        Panel(
            title="Odd blocks",
            description="Anomalies in events; `parked` and `attached` are normal.",
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
            description="1: as engines report them.",
            queries=per_worker("hit_accuracy_ratio", "min"),
            unit="percentunit",
            most=1,
            width=6,
        ),
        Panel(
            title="Predicted and reported",
            description="Cached tokens of prompts, as predicted, and as engines reported them.",
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
            title="Alarms",
            description="1 while predicted hits of a worker are mostly wrong: its engine's events are not used.",
            queries=per_worker("hit_alarm"),
            width=6,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Exact tokens",
            description="Prompts whose tokens were known, or why not.",
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
            description="Of all gateways together.",
            queries=per_worker("in_flight", "sum"),
            width=6,
        ),
        Panel(
            title="Prefill standing before a new request",
            description="As predicted.",
            queries=per_worker("backlog_seconds"),
            unit="s",
            width=6,
        ),
        Panel(
            title="Prefill rate",
            description="Prompt tokens per second that a worker is believed to compute.",
            queries=per_worker("prefill_tokens_per_second", "avg"),
            width=6,
        ),
        Panel(
            title="KV cache in use",
            description="By the engines' own account, as the gateways read it.",
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
