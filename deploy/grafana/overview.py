"""Is all well: traffic, errors, latency, where time goes, what caches bring, and the gateways themselves."""

from deploy.grafana.choices import GATEWAYS, JOB, MODEL, NAMESPACE, OF_MODEL
from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panel import RATE, Panel, Query

REQUESTS = f"sum(rate(warmgate_requests_total{{{OF_MODEL}}}{RATE}))"
FAILED = f'sum(rate(warmgate_requests_total{{{OF_MODEL},status=~"5.."}}{RATE}))'
CACHED = f'sum(rate(warmgate_tokens_total{{{OF_MODEL},kind="cached"}}{RATE}))'
PROMPT = f'sum(rate(warmgate_tokens_total{{{OF_MODEL},kind="prompt"}}{RATE}))'
OURS = f"and on (namespace, job, instance) warmgate_index_max_bytes{{{GATEWAYS}}}"
"""Condition that selects the gateways' part of a series that every process has."""


def quantile(share: float, histogram: str, *by: str) -> str:
    """Return a quantile over all gateways, by the labels *by*."""
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
            description="Completion requests that ended, per second.",
            queries=[Query(REQUESTS)],
            unit="reqps",
            kind="stat",
            width=3,
        ),
        Panel(
            title="Errors",
            description="Share of requests that were answered 5xx. Errors of callers do not count.",
            queries=[Query(f"({FAILED} or vector(0)) / {REQUESTS}")],
            unit="percentunit",
            kind="stat",
            width=3,
            decimals=2,
            thresholds=[(0.001, "orange"), (0.01, "red")],
        ),
        Panel(
            title="In flight",
            description="Requests being served.",
            queries=[Query(f"sum(warmgate_requests_in_flight{{{OF_MODEL}}})")],
            kind="stat",
            width=3,
        ),
        Panel(
            title="TTFT p95",
            description="Time to the first useful byte of streams.",
            queries=[Query(quantile(0.95, "time_to_first_token_seconds"))],
            unit="s",
            kind="stat",
            width=3,
            thresholds=[(5, "orange"), (10, "red")],
        ),
        Panel(
            title="Cached",
            description="Share of prompt tokens that engines had in their caches, as they report it.",
            queries=[Query(f"{CACHED} / {PROMPT}")],
            unit="percentunit",
            kind="stat",
            width=3,
        ),
        Panel(
            title="Workers up",
            description="Model servers whose health checks pass, as the gateway that sees most of them says.",
            queries=[Query(f"sum(max by (model, worker) (warmgate_worker_up{{{OF_MODEL}}}))")],
            kind="stat",
            width=3,
        ),
        Panel(
            title="Models without a worker",
            description="That have workers of their own, and none of them is up.",
            queries=[Query(f"count(sum by (model) (warmgate_worker_up{{{OF_MODEL}}}) == 0) or vector(0)")],
            kind="stat",
            width=3,
            thresholds=[(1, "red")],
        ),
        Panel(
            title="Gateways",
            description="That Prometheus reaches.",
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
            description="499: the caller disconnected before the answer.",
            queries=[
                Query(f"sum by (status) (rate(warmgate_requests_total{{{OF_MODEL}}}{RATE}))", "{{status}}"),
            ],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Requests by model",
            description="`unknown`: of a model that is not configured.",
            queries=[Query(f"sum by (model) (rate(warmgate_requests_total{{{OF_MODEL}}}{RATE}))", "{{model}}")],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Errors by name",
            description="All requests that ended in an error, also those that the caller caused.",
            queries=[Query(f"sum by (error) (rate(warmgate_errors_total{{{OF_MODEL}}}{RATE}))", "{{error}}")],
            unit="reqps",
        ),
        Panel(
            title="Tokens",
            description="As engines counted them. Of prompt tokens, cached ones are a part.",
            queries=[
                Query(
                    f'sum by (kind) (rate(warmgate_tokens_total{{{OF_MODEL},kind!="predicted"}}{RATE}))',
                    "{{kind}}",
                )
            ],
            unit="short",
        ),
        Panel(
            title="In flight by model",
            description="Requests being served.",
            queries=[Query(f"sum by (model) (warmgate_requests_in_flight{{{OF_MODEL}}})", "{{model}}")],
            is_stacked=True,
        ),
        Panel(
            title="Where requests went",
            description="Answered by model servers, or by fallbacks.",
            queries=[
                Query(f"{REQUESTS} - sum(rate(warmgate_fallbacks_total{{{OF_MODEL}}}{RATE}))", "workers and refusals"),
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
            description="To the first useful byte of streams, from the request's arrival here.",
            queries=quantiles("time_to_first_token_seconds"),
            unit="s",
        ),
        Panel(
            title="Time per output token",
            description="After the first, of streams.",
            queries=quantiles("time_per_output_token_seconds"),
            unit="s",
        ),
        Panel(
            title="Whole answers",
            description="From arrival to the last byte.",
            queries=quantiles("request_duration_seconds"),
            unit="s",
        ),
        Panel(
            title="Time to first token by model, p95",
            description="Of streams.",
            queries=[Query(quantile(0.95, "time_to_first_token_seconds", "model"), "{{model}}")],
            unit="s",
            width=12,
        ),
        Panel(
            title="Time per output token by model, p95",
            description="Of streams.",
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
            description="Until the first byte of streams a request waits here and in the engine, and its prompt is"
            " computed. The engines' dashboard shows each.",
            queries=[
                Query(mean("time_to_first_token_seconds"), "until the first byte"),
                Query(mean("request_duration_seconds"), "whole answer"),
            ],
            unit="s",
            width=6,
        ),
        Panel(
            title="Held here",
            description="Requests that wait for a worker that is about to be free, and for one to be there at all.",
            queries=[
                Query(f"sum(warmgate_requests_waiting{{{OF_MODEL}}})", "for their turn"),
                Query(f"sum(warmgate_requests_without_worker{{{OF_MODEL}}})", "no worker is there"),
            ],
            width=6,
        ),
        Panel(
            title="Longest hold",
            description="Of the request that is held longest, by model.",
            queries=[Query(f"max by (model) (warmgate_oldest_wait_seconds{{{OF_MODEL}}})", "{{model}}")],
            unit="s",
            width=6,
        ),
        Panel(
            title="Prefill before a new request",
            description="What stands before it, as the gateway predicts: the worker with least, and with most.",
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
            description="Of prompt tokens, as engines report it.",
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
            title="Why a worker was chosen",
            description="hit: no other worker held more of the prompt; spread: another did, but cost more; cold: none"
            " held any; none: there was no worker.",
            queries=[
                Query(f"sum by (reason) (rate(warmgate_decisions_total{{{OF_MODEL}}}{RATE}))", "{{reason}}"),
            ],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="GPUs saved",
            description="Cached tokens per second, divided by the tokens that one worker computes in a second: so many"
            " workers would be busy with what caches made unnecessary.",
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
            title="Processor",
            description="Of one core, which is what a gateway has.",
            queries=[Query(f"rate(process_cpu_seconds_total{RATE}) {OURS}", "{{instance}}")],
            unit="percentunit",
            width=5,
            thresholds=[(0.8, "red")],
        ),
        Panel(
            title="Memory",
            description="Resident.",
            queries=[Query(f"process_resident_memory_bytes {OURS}", "{{instance}}")],
            unit="bytes",
            width=5,
        ),
        Panel(
            title="Late event loop, p99",
            description="What holds the loop holds every request of that gateway.",
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
            title="Descriptors",
            description="Open ones, of those that there may be: each connection is one.",
            queries=[Query(f"process_open_fds / process_max_fds {OURS}", "{{instance}}")],
            unit="percentunit",
            width=5,
            thresholds=[(0.8, "red")],
        ),
        Panel(
            title="Age",
            description="Since its start.",
            queries=[Query(f"time() - process_start_time_seconds {OURS}", "{{instance}}")],
            unit="s",
            width=4,
        ),
    ],
)

OVERVIEW = Dashboard(
    name="overview",
    title="Overview",
    description="Is all well? Traffic, errors, latency, where time goes, what caches bring, and the gateways.",
    choices=[NAMESPACE, JOB, MODEL],
    rows=[NOW, TRAFFIC, LATENCY, TIME, CACHES, PROCESSES],
)
