"""The engine's metrics under vLLM's names and labels (vllm/v1/metrics/loggers.py)."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.simulator.engine import EngineLoad

_ENGINE = "0"  # the data-parallel rank
_LABELS = ("model_name", "engine")
_TTFT_BUCKETS_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)  # vLLM's


class Exposition:
    """What ``GET /metrics`` shows. *read_load* is called at each scrape; the rest is told as it happens."""

    def __init__(
        self,
        model: str,
        read_load: Callable[[], EngineLoad],
        *,
        cache_config: Mapping[str, str],
        started_at: float,
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_LoadCollector(model, read_load, cache_config=cache_config, started_at=started_at))
        self._ttft = Histogram(
            "vllm:time_to_first_token_seconds",
            "From arrival to the first token.",
            labelnames=_LABELS,
            buckets=_TTFT_BUCKETS_S,
            registry=self._registry,
        ).labels(model, _ENGINE)
        success = Counter(
            "vllm:request_success",
            "Requests that have ended, by reason.",
            labelnames=(*_LABELS, "finished_reason"),
            registry=self._registry,
        )
        self._success = {reason: success.labels(model, _ENGINE, reason) for reason in ("stop", "length", "abort")}

    def first_token(self, ttft_s: float) -> None:
        self._ttft.observe(ttft_s)

    def finished(self, reason: str) -> None:
        """*reason* is stop, length or abort."""
        self._success[reason].inc()

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _LoadCollector(Collector):
    def __init__(
        self,
        model: str,
        read_load: Callable[[], EngineLoad],
        *,
        cache_config: Mapping[str, str],
        started_at: float,
    ) -> None:
        self._values = (model, _ENGINE)
        self._read_load = read_load
        self._cache_config = dict(cache_config)
        self._started_at = started_at

    def collect(self) -> Iterator[Metric]:
        load = self._read_load()
        gauges = {
            "vllm:num_requests_running": ("Requests being computed.", load.running),
            "vllm:num_requests_waiting": ("Requests in the queue.", load.waiting),
            "vllm:kv_cache_usage_perc": ("Share of the KV blocks in use, 0 to 1.", load.kv_usage),
        }
        counters = {
            "vllm:prefix_cache_queries": ("Prompt tokens looked up in the prefix cache.", load.prefix_query_tokens),
            "vllm:prefix_cache_hits": ("Prompt tokens found in the prefix cache.", load.prefix_hit_tokens),
            "vllm:prompt_tokens": ("Prompt tokens whose prefill has ended.", load.prompt_tokens),
            "vllm:generation_tokens": ("Output tokens.", load.generation_tokens),
            "vllm:num_preemptions": ("Requests that lost their blocks and were computed again.", load.preemptions),
        }
        for name, (text, value) in gauges.items():
            gauge = GaugeMetricFamily(name, text, labels=_LABELS)
            gauge.add_metric(self._values, value)
            yield gauge
        for name, (text, total) in counters.items():
            counter = CounterMetricFamily(name, text, labels=_LABELS)
            counter.add_metric(self._values, total)
            yield counter
        config = GaugeMetricFamily(
            "vllm:cache_config_info", "How the cache is set up, as labels.", labels=(*self._cache_config, "engine")
        )
        config.add_metric((*self._cache_config.values(), _ENGINE), 1)
        yield config
        yield GaugeMetricFamily(
            "process_start_time_seconds", "Unix time at which this worker started.", self._started_at
        )
