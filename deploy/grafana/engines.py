"""The model servers by their own metrics, and the GPUs below them by those of NVIDIA's DCGM exporter.

Names of vLLM's metrics are those of vllm/v1/metrics/loggers.py in 0.32, of SGLang's those of
sglang/srt/observability/metrics_collector.py, of the exporter's those of its files etc/default-counters.csv and
etc/dcp-metrics-included.csv; the exporter has those of the last two panels only where it is allowed to profile.
"""

from deploy.grafana.dashboard import Choice, Dashboard, Row
from deploy.grafana.panel import RATE, Panel, Query

SERVED = Choice(
    "served", '{__name__=~"vllm:num_requests_running|sglang:num_running_reqs"}', "Served model", label="model_name"
)
ENGINE = Choice("engine", '{__name__=~"vllm:num_requests_running|sglang:num_running_reqs"}', "Engine", label="instance")
GPU = Choice("gpu_model", "DCGM_FI_DEV_GPU_UTIL", "GPU", label="modelName")

CHOSEN = 'model_name=~"$served",instance=~"$engine"'
GPUS = 'modelName=~"$gpu_model"'
OF_GPU = "{{Hostname}}{{hostname}} GPU {{gpu}}"
"""The exporter's label of the node was called Hostname, and is called hostname in newer versions."""


def gauge(metric: str, legend: str = "{{instance}}") -> Query:
    return Query(f"sum by (instance) ({metric}{{{CHOSEN}}})", legend)


def rate(metric: str, legend: str) -> Query:
    return Query(f"sum by (instance) (rate({metric}{{{CHOSEN}}}{RATE}))", legend)


def late(histogram: str, legend: str) -> Query:
    """The 95th percentile of each engine."""
    buckets = f"{histogram}_bucket{{{CHOSEN}}}"
    return Query(f"histogram_quantile(0.95, sum by (instance, le) (rate({buckets}{RATE})))", legend)


def mean(histogram: str, legend: str) -> Query:
    total, count = (f"sum(rate({histogram}_{part}{{{CHOSEN}}}{RATE}))" for part in ("sum", "count"))
    return Query(f"{total} / {count}", legend)


def gpus(metric: str, title: str, description: str, unit: str, *, most: float | None = None) -> Panel:
    return Panel(
        title=title,
        description=f"{description} From the DCGM exporter: {metric}.",
        queries=[Query(f"{metric}{{{GPUS}}}", OF_GPU)],
        unit=unit,
        most=most,
    )


VLLM = Row(
    "vLLM",
    [
        Panel(
            title="Running and waiting",
            description="Requests in the engine's batches, and in its queue.",
            queries=[
                gauge("vllm:num_requests_running", "{{instance}} running"),
                gauge("vllm:num_requests_waiting", "{{instance}} waiting"),
            ],
        ),
        Panel(
            title="KV cache in use",
            description="Share of its blocks.",
            queries=[Query(f"max by (instance) (vllm:kv_cache_usage_perc{{{CHOSEN}}})", "{{instance}}")],
            unit="percentunit",
            most=1,
        ),
        Panel(
            title="Prefix cache hits",
            description="Share of the prompt tokens that were looked up.",
            queries=[
                Query(
                    f"sum by (instance) (rate(vllm:prefix_cache_hits_total{{{CHOSEN}}}{RATE}))"
                    f" / sum by (instance) (rate(vllm:prefix_cache_queries_total{{{CHOSEN}}}{RATE}))",
                    "{{instance}}",
                )
            ],
            unit="percentunit",
            most=1,
        ),
        Panel(
            title="Tokens",
            description="Prompts computed, and tokens generated, per second.",
            queries=[
                rate("vllm:prompt_tokens_total", "{{instance}} prompt"),
                rate("vllm:generation_tokens_total", "{{instance}} generated"),
            ],
        ),
        Panel(
            title="Time to first token, p95",
            description="From the request's arrival in the engine.",
            queries=[late("vllm:time_to_first_token_seconds", "{{instance}}")],
            unit="s",
        ),
        Panel(
            title="Time between tokens, p95",
            description="Inter-token latency.",
            queries=[late("vllm:inter_token_latency_seconds", "{{instance}}")],
            unit="s",
        ),
        Panel(
            title="Where time goes",
            description="Mean of a request in the engine: in its queue, computing the prompt, generating.",
            queries=[
                mean("vllm:request_queue_time_seconds", "queue"),
                mean("vllm:request_prefill_time_seconds", "prefill"),
                mean("vllm:request_decode_time_seconds", "decode"),
            ],
            unit="s",
            is_stacked=True,
        ),
        Panel(
            title="Preemptions",
            description="Requests that lost their blocks and are computed again: the cache is too small for the load.",
            queries=[rate("vllm:num_preemptions_total", "{{instance}}")],
            unit="cps",
        ),
        Panel(
            title="Ended requests",
            description="By reason.",
            queries=[
                Query(
                    f"sum by (finished_reason) (rate(vllm:request_success_total{{{CHOSEN}}}{RATE}))",
                    "{{finished_reason}}",
                )
            ],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Asleep",
            description="1 in the state that the engine is in.",
            queries=[
                Query(
                    f"max by (instance, sleep_state) (vllm:engine_sleep_state{{{CHOSEN}}})",
                    "{{instance}} {{sleep_state}}",
                )
            ],
            most=1,
        ),
    ],
)
SGLANG = Row(
    "SGLang",
    [
        Panel(
            title="Running and waiting",
            description="Requests that are computed, and in the engine's queue.",
            queries=[
                gauge("sglang:num_running_reqs", "{{instance}} running"),
                gauge("sglang:num_queue_reqs", "{{instance}} waiting"),
            ],
        ),
        Panel(
            title="KV cache in use",
            description="Share of its tokens.",
            queries=[
                Query(
                    f'max by (instance) ({{__name__=~"sglang:(full_)?token_usage",{CHOSEN}}})',
                    "{{instance}}",
                )
            ],
            unit="percentunit",
            most=1,
        ),
        Panel(
            title="Cache hit rate",
            description="Share of prompt tokens of the last batches.",
            queries=[Query(f"max by (instance) (sglang:cache_hit_rate{{{CHOSEN}}})", "{{instance}}")],
            unit="percentunit",
            most=1,
        ),
        Panel(
            title="Tokens",
            description="Of prompts, of those cached, and generated, per second.",
            queries=[
                rate("sglang:prompt_tokens_total", "{{instance}} prompt"),
                rate("sglang:cached_tokens_total", "{{instance}} cached"),
                rate("sglang:generation_tokens_total", "{{instance}} generated"),
            ],
        ),
        Panel(
            title="Time to first token, p95",
            description="From the request's arrival in the engine.",
            queries=[late("sglang:time_to_first_token_seconds", "{{instance}}")],
            unit="s",
        ),
    ],
)
DCGM = Row(
    "GPUs, from the DCGM exporter",
    [
        gpus("DCGM_FI_DEV_GPU_UTIL", "GPU busy", "Share of time in which anything ran.", "percent", most=100),
        gpus(
            "DCGM_FI_DEV_MEM_COPY_UTIL",
            "Memory busy",
            "Share of time in which it was read or written.",
            "percent",
            most=100,
        ),
        Panel(
            title="Memory in use",
            description="Of all of it; engines take theirs at their start. From the DCGM exporter: DCGM_FI_DEV_FB_USED,"
            " DCGM_FI_DEV_FB_FREE.",
            queries=[
                Query(
                    f"DCGM_FI_DEV_FB_USED{{{GPUS}}} / (DCGM_FI_DEV_FB_USED{{{GPUS}}} + DCGM_FI_DEV_FB_FREE{{{GPUS}}})",
                    OF_GPU,
                )
            ],
            unit="percentunit",
            most=1,
        ),
        gpus("DCGM_FI_DEV_POWER_USAGE", "Power", "Drawn at the moment.", "watt"),
        gpus("DCGM_FI_DEV_GPU_TEMP", "Temperature", "Of the chip.", "celsius"),
        gpus("DCGM_FI_DEV_SM_CLOCK", "Clock", "Of its processors, in MHz: lower under load is throttling.", "short"),
        gpus(
            "DCGM_FI_DEV_XID_ERRORS",
            "Last Xid error",
            "0: none. NVIDIA's page of Xid errors explains the others.",
            "none",
        ),
        gpus("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Tensor cores busy", "Share of cycles.", "percentunit", most=1),
        gpus(
            "DCGM_FI_PROF_DRAM_ACTIVE",
            "Memory interface busy",
            "Share of cycles: decoding lives by it.",
            "percentunit",
            most=1,
        ),
    ],
)

ENGINES = Dashboard(
    name="engines",
    title="Engines and GPUs",
    description="vLLM and SGLang by their own metrics, and GPUs by those of NVIDIA's DCGM exporter.",
    choices=[SERVED, ENGINE, GPU],
    rows=[VLLM, SGLANG, DCGM],
)
