"""Overview dashboard: traffic, errors, latency, waiting time, cache hits, and the gateway processes."""

from deploy.grafana.choices import GATEWAYS, JOB, MODEL, NAMESPACE, OF_MODEL
from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panel import RATE, Panel, Query

REQUESTS = f"sum(rate(warmgate_requests_total{{{OF_MODEL}}}{RATE}))"
FAILED = f'sum(rate(warmgate_requests_total{{{OF_MODEL},status=~"5.."}}{RATE}))'
CACHED = f'sum(rate(warmgate_tokens_total{{{OF_MODEL},kind="cached"}}{RATE}))'
PROMPT = f'sum(rate(warmgate_tokens_total{{{OF_MODEL},kind="prompt"}}{RATE}))'
OURS = f"and on (namespace, job, instance) warmgate_index_max_bytes{{{GATEWAYS}}}"
"""PromQL condition that selects the gateways in a metric that all processes have."""


def quantile(share: float, histogram: str, *by: str) -> str:
    """Return a PromQL expression for a quantile over all gateways, by the labels *by*."""
    labels = ", ".join(("le", *by))
    buckets = f"warmgate_{histogram}_bucket{{{OF_MODEL}}}"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({buckets}{RATE})))"


def mean(histogram: str) -> str:
    total, count = (f"sum(rate(warmgate_{histogram}_{part}{{{OF_MODEL}}}{RATE}))" for part in ("sum", "count"))
    return f"{total} / {count}"


def quantiles(histogram: str) -> list[Query]:
    return [Query(quantile(share, histogram), f"p{share * 100:g}") for share in (0.5, 0.95, 0.99)]


NOW = Row(
    "Now",
    [
        Panel(
            title="Requests",
            description="Completed requests per second.",
            queries=[Query(REQUESTS)],
            unit="reqps",
            kind="stat",
            width=3,
        ),
        Panel(
            title="Errors",
            description="Share of requests answered with a 5xx status. Errors that callers cause do not count.",
            queries=[Query(f"({FAILED} or vector(0)) / {REQUESTS}")],
            unit="percentunit",
            kind="stat",
            width=3,
            decimals=2,
            thresholds=[(0.001, "orange"), (0.01, "red")],
        ),
        Panel(
            title="Requests in progress",
            description="Requests that the gateways are serving now.",
            queries=[Query(f"sum(warmgate_requests_in_flight{{{OF_MODEL}}})")],
            kind="stat",
            width=3,
        ),
        Panel(
            title="TTFT p95",
            description="Time to the first token of a stream. One stream in twenty takes longer.",
            queries=[Query(quantile(0.95, "time_to_first_token_seconds"))],
            unit="s",
            kind="stat",
            width=3,
            thresholds=[(5, "orange"), (10, "red")],
        ),
        Panel(
            title="Cached prompt tokens",
            description="Share of prompt tokens that engines report as cached.",
            queries=[Query(f"{CACHED} / {PROMPT}")],
            unit="percentunit",
            kind="stat",
            width=3,
        ),
        Panel(
            title="Workers up",
            description="Workers whose health checks pass, for each model as seen by at least one gateway.",
            queries=[Query(f"sum(max by (model, worker) (warmgate_worker_up{{{OF_MODEL}}}))")],
            kind="stat",
            width=3,
        ),
        Panel(
            title="Models without a worker",
            description="Models that have workers, but none whose health checks pass.",
            queries=[Query(f"count(sum by (model) (warmgate_worker_up{{{OF_MODEL}}}) == 0) or vector(0)")],
            kind="stat",
            width=3,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Gateways",
            description="Gateways whose metrics Prometheus can read.",
            queries=[Query(f"count(warmgate_index_max_bytes{{{GATEWAYS}}})")],
            kind="stat",
            width=3,
        ),
    ],
)
TRAFFIC = Row(
    "Traffic",
    [
        Panel(
            title="Requests by status",
            description="Completed requests by HTTP status. Status 499 means that the caller disconnected before"
            " the answer.",
            queries=[
                Query(f"sum by (status) (rate(warmgate_requests_total{{{OF_MODEL}}}{RATE}))", "{{status}}"),
            ],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Requests by model",
            description="Completed requests by model. `unknown` stands for all models that are not configured.",
            queries=[Query(f"sum by (model) (rate(warmgate_requests_total{{{OF_MODEL}}}{RATE}))", "{{model}}")],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Errors by name",
            description="Requests that ended with an error, by error name. Errors that callers cause are included.",
            queries=[Query(f"sum by (error) (rate(warmgate_errors_total{{{OF_MODEL}}}{RATE}))", "{{error}}")],
            unit="reqps",
        ),
        Panel(
            title="Tokens",
            description="Tokens per second, as engines count them. Prompt tokens include cached tokens.",
            queries=[
                Query(
                    f'sum by (kind) (rate(warmgate_tokens_total{{{OF_MODEL},kind!="predicted"}}{RATE}))',
                    "{{kind}}",
                )
            ],
            unit="short",
        ),
        Panel(
            title="Requests in progress by model",
            description="Requests that the gateways are serving now, by model.",
            queries=[Query(f"sum by (model) (warmgate_requests_in_flight{{{OF_MODEL}}})", "{{model}}")],
            is_stacked=True,
        ),
        Panel(
            title="Requests by backend",
            description="Requests that fallbacks answered, and all other requests.",
            queries=[
                Query(
                    f"{REQUESTS} - sum(rate(warmgate_fallbacks_total{{{OF_MODEL}}}{RATE}))",
                    "workers and rejected requests",
                ),
                Query(f"sum(rate(warmgate_fallbacks_total{{{OF_MODEL}}}{RATE}))", "fallbacks"),
            ],
            unit="reqps",
            is_stacked=True,
        ),
    ],
)
LATENCY = Row(
    "Latency",
    [
        Panel(
            title="Time to first token",
            description="Time from the arrival of a request at the gateway to the first token of its stream.",
            queries=quantiles("time_to_first_token_seconds"),
            unit="s",
        ),
        Panel(
            title="Time per output token",
            description="Time for each output token of a stream after the first one.",
            queries=quantiles("time_per_output_token_seconds"),
            unit="s",
        ),
        Panel(
            title="Request duration",
            description="Time from the arrival of a request to the last byte of its answer.",
            queries=quantiles("request_duration_seconds"),
            unit="s",
        ),
        Panel(
            title="Time to first token by model, p95",
            description="Time to the first token of a stream, by model. One stream in twenty takes longer.",
            queries=[Query(quantile(0.95, "time_to_first_token_seconds", "model"), "{{model}}")],
            unit="s",
            width=12,
        ),
        Panel(
            title="Time per output token by model, p95",
            description="Time for each output token of a stream after the first one, by model. One stream in"
            " twenty takes longer.",
            queries=[Query(quantile(0.95, "time_per_output_token_seconds", "model"), "{{model}}")],
            unit="s",
            width=12,
        ),
    ],
)
TIME = Row(
    "Where time goes",
    [
        Panel(
            title="Mean time of a request",
            description="Mean time to the first byte of a stream, and mean time of a whole request. Time to the"
            " first byte includes waiting in the gateway and in the engine, and computing the prompt.",
            queries=[
                Query(mean("time_to_first_token_seconds"), "until the first byte"),
                Query(mean("request_duration_seconds"), "whole answer"),
            ],
            unit="s",
            width=6,
        ),
        Panel(
            title="Waiting requests",
            description="Requests that wait in the gateway because all workers are busy, or because no worker is"
            " available.",
            queries=[
                Query(f"sum(warmgate_requests_waiting{{{OF_MODEL}}})", "all workers are busy"),
                Query(f"sum(warmgate_requests_without_worker{{{OF_MODEL}}})", "no worker is available"),
            ],
            width=6,
        ),
        Panel(
            title="Longest wait",
            description="Time that the oldest waiting request of each model has waited for a worker.",
            queries=[Query(f"max by (model) (warmgate_oldest_wait_seconds{{{OF_MODEL}}})", "{{model}}")],
            unit="s",
            width=6,
        ),
        Panel(
            title="Queued prefill work",
            description="Predicted seconds of queued prefill work ahead of a new request, for the least and the"
            " most loaded worker of each model.",
            queries=[
                Query(f"min by (model) (warmgate_worker_backlog_seconds{{{OF_MODEL}}})", "{{model}} least"),
                Query(f"max by (model) (warmgate_worker_backlog_seconds{{{OF_MODEL}}})", "{{model}} most"),
            ],
            unit="s",
            width=6,
        ),
    ],
)
CACHES = Row(
    "Caches",
    [
        Panel(
            title="Cached share of prompts",
            description="Share of a model's prompt tokens that engines report as cached.",
            queries=[
                Query(
                    f'sum by (model) (rate(warmgate_tokens_total{{{OF_MODEL},kind="cached"}}{RATE}))'
                    f' / sum by (model) (rate(warmgate_tokens_total{{{OF_MODEL},kind="prompt"}}{RATE}))',
                    "{{model}}",
                )
            ],
            unit="percentunit",
            most=1,
        ),
        Panel(
            title="Routing decisions by reason",
            description="Routing decisions by reason: hit (no other worker held more of the prompt), spread"
            " (another worker held more, but cost more), cold (no worker held any of the prompt) or"
            " none (no worker was available).",
            queries=[
                Query(f"sum by (reason) (rate(warmgate_decisions_total{{{OF_MODEL}}}{RATE}))", "{{reason}}"),
            ],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Workers saved by caches",
            description="Number of workers that would be busy computing the cached tokens: cached tokens per"
            " second, divided by the tokens that one worker computes per second.",
            queries=[
                Query(
                    f'sum by (model) (rate(warmgate_tokens_total{{{OF_MODEL},kind="cached"}}{RATE}))'
                    f" / avg by (model) (warmgate_worker_prefill_tokens_per_second{{{OF_MODEL}}})",
                    "{{model}}",
                )
            ],
            decimals=2,
        ),
    ],
)
PROCESSES = Row(
    "Gateways",
    [
        Panel(
            title="Processor time",
            description="Processor time of each gateway as a share of one core. A gateway cannot use more than"
            " one core.",
            queries=[Query(f"rate(process_cpu_seconds_total{RATE}) {OURS}", "{{instance}}")],
            unit="percentunit",
            width=5,
            thresholds=[(0.8, "red")],
        ),
        Panel(
            title="Memory",
            description="Resident memory of each gateway.",
            queries=[Query(f"process_resident_memory_bytes {OURS}", "{{instance}}")],
            unit="bytes",
            width=5,
        ),
        Panel(
            title="Event loop lag, p99",
            description="Lag of the gateway's event loop. While the loop is blocked, all requests of the gateway wait.",
            queries=[
                Query(
                    "histogram_quantile(0.99, sum by (instance, le)"
                    f" (rate(warmgate_event_loop_lag_seconds_bucket{{{GATEWAYS}}}{RATE})))",
                    "{{instance}}",
                )
            ],
            unit="s",
            width=5,
            thresholds=[(0.25, "red")],
        ),
        Panel(
            title="File descriptors",
            description="Share of the gateway's file descriptors in use. Each connection needs one descriptor.",
            queries=[Query(f"process_open_fds / process_max_fds {OURS}", "{{instance}}")],
            unit="percentunit",
            width=5,
            thresholds=[(0.8, "red")],
        ),
        Panel(
            title="Uptime",
            description="Time since the gateway started.",
            queries=[Query(f"time() - process_start_time_seconds {OURS}", "{{instance}}")],
            unit="s",
            width=4,
        ),
    ],
)

OVERVIEW = Dashboard(
    name="overview",
    title="Overview",
    description="Traffic, errors, latency, waiting time, cache hits, and the gateway processes.",
    choices=[NAMESPACE, JOB, MODEL],
    rows=[NOW, TRAFFIC, LATENCY, TIME, CACHES, PROCESSES],
)
