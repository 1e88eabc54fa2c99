"""Prometheus metrics. Every label has few values: configured models and workers, strategies, statuses, reasons."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from cache_index import CacheIndex
from gateway.models.model import Model
from gateway.telemetry.counters import CountersByModel, Histogram, RequestCounters


class Metrics:
    """The registry of all metrics, and an `Observer` that counts completed requests."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counts = CountersByModel()
        # The compiled method itself: a method here that called it would be interpreted.
        self.observe = counts.observe
        self.registry.register(_RequestCollector(counts.counters))

    def exposition(self) -> bytes:
        """Return the metrics in Prometheus text format 0.0.4."""
        return generate_latest(self.registry)


class _RequestCollector(Collector):
    """Metrics of completed requests, by model."""

    def __init__(self, counters: Mapping[str, RequestCounters]) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        def counter(name: str, text: str, samples: Callable[[RequestCounters], _Samples], *labels: str) -> Metric:
            family = CounterMetricFamily(f"warmgate_{name}", text, labels=("model", *labels))
            for model, counters in self._counters.items():
                for values, count in samples(counters):
                    family.add_metric((model, *values), count)
            return family

        yield counter(
            "requests",
            "Requests by the status of their answer.",
            lambda t: [((str(status),), n) for status, n in t.requests.items()],
            "status",
        )
        yield counter(
            "errors",
            "Requests that ended in an error, by its name.",
            lambda t: [((name,), n) for name, n in t.errors.items()],
            "error",
        )
        yield counter(
            "decisions",
            "Choices of a worker: hit, spread (a longer hit cost more), cold, none (no worker there).",
            lambda t: t.decisions.items(),
            "strategy",
            "reason",
        )
        yield counter("retries", "Attempts beyond a request's first.", lambda t: [((), t.retries)])
        yield counter("streams_continued", "Streams that another worker continued.", lambda t: [((), t.continued)])
        yield counter(
            "prefills",
            "Prompts by where they were computed: remote (prefill worker), here (the worker that answers), failed.",
            lambda t: [((where,), n) for where, n in t.prefills.items()],
            "location",
        )
        yield counter("fallbacks", "Requests that a fallback answered.", lambda t: [((), t.fallbacks)])
        yield counter(
            "tokens",
            "Tokens by kind: prompt, cached, predicted (to be cached, where engines report cached tokens), completion.",
            lambda t: [
                (("prompt",), t.prompt_tokens),
                (("cached",), t.cached_tokens),
                (("predicted",), t.predicted_tokens),
                (("completion",), t.completion_tokens),
            ],
            "kind",
        )
        for name, text, histogram_of in _HISTOGRAMS:
            family = HistogramMetricFamily(f"warmgate_{name}", text, labels=("model",))
            for model, counters in self._counters.items():
                histogram = histogram_of(counters)
                family.add_metric((model,), buckets=histogram.cumulative(), sum_value=histogram.total)
            yield family


_Samples = Iterable[tuple[tuple[str, ...], int]]

_HISTOGRAMS: tuple[tuple[str, str, Callable[[RequestCounters], Histogram]], ...] = (
    ("time_to_first_token_seconds", "Time to first byte of a streamed answer.", lambda t: t.ttft),
    ("time_per_output_token_seconds", "Time per output token after the first.", lambda t: t.tpot),
    ("request_duration_seconds", "Duration of an answered request.", lambda t: t.e2e),
    (
        "predicted_cached_tokens",
        "Prompt tokens predicted to be cached at the chosen worker.",
        lambda t: t.predicted_cached,
    ),
)


class StateCollector(Collector):
    """Gauges that read the state at every scrape: a gauge that is not counted up and down cannot leak."""

    def __init__(
        self, models: Iterable[Model], index: CacheIndex, *, max_index_bytes: int, clock: Callable[[], float]
    ) -> None:
        """*models* are read at every scrape."""
        self._models = models
        self._index = index
        self._max_index_bytes = max_index_bytes
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("warmgate_index_bytes", "Memory of the prefix index.", self._index.size_bytes)
        yield GaugeMetricFamily("warmgate_index_max_bytes", "Its limit, from settings.", self._max_index_bytes)
        yield from self._of_requests()
        yield from self._policies()
        yield from self._of_workers()

    def _of_requests(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("warmgate_requests_in_flight", "Requests being served.", labels=("model",))
        for model in self._models:
            family.add_metric((model.name,), model.in_flight)
        yield family
        waiting = GaugeMetricFamily(
            "warmgate_requests_waiting", "Requests that wait until a worker is about to be free.", labels=("model",)
        )
        oldest = GaugeMetricFamily(
            "warmgate_oldest_wait_seconds", "Wait of the request that has waited longest.", labels=("model",)
        )
        without = GaugeMetricFamily(
            "warmgate_requests_without_worker", "Requests that wait because there is no worker.", labels=("model",)
        )
        for model in self._models:
            waiting.add_metric((model.name,), model.dispatch_queue.waiting)
            oldest.add_metric((model.name,), model.dispatch_queue.oldest_wait_s)
            without.add_metric((model.name,), model.arrivals.waiting)
        by_team = GaugeMetricFamily(
            "warmgate_team_requests_waiting",
            "Requests that wait until a worker is about to be free, by team.",
            labels=("model", "team"),
        )
        for model in self._models:
            for team, count in model.dispatch_queue.waiting_by_team.items():
                if team:
                    by_team.add_metric((model.name, team), count)
        yield from (waiting, oldest, without, by_team)

    def _policies(self) -> Iterator[Metric]:
        configured = GaugeMetricFamily(
            "warmgate_policy_configured", "1 for the configured strategy.", labels=("model", "policy")
        )
        effective = GaugeMetricFamily(
            "warmgate_policy_effective", "1 for the strategy that is in effect now.", labels=("model", "policy")
        )
        for model in self._models:
            configured.add_metric((model.name, model.strategy), 1.0)
            effective.add_metric((model.name, model.effective_policy), 1.0)
        yield from (configured, effective)

    def _of_workers(self) -> Iterator[Metric]:
        families = {
            name: GaugeMetricFamily(f"warmgate_worker_{name}", text, labels=("model", "worker"))
            for name, text in _WORKER_GAUGES
        }
        roles = GaugeMetricFamily(
            "warmgate_worker_role", "1 for the role of the worker.", labels=("model", "worker", "role")
        )
        for model in self._models:
            for worker in model.fleet:
                roles.add_metric((model.name, worker.id, worker.role), 1.0)
            for reading in model.readings(self._clock()):
                for name, value in reading.values.items():
                    families[name].add_metric((model.name, reading.worker), value)
        yield from (roles, *families.values())


_WORKER_GAUGES = (
    ("up", "1 if the worker's health check passes."),
    ("asleep", "1 while the worker's engine sleeps: it gets no requests."),
    ("draining", "1 while it gets no new requests; at 0 in_flight it is drained."),
    ("breaker_open", "1 while its circuit breaker is open."),
    ("in_flight", "Requests on the worker."),
    ("backlog_seconds", "Predicted time of prefill before a new request."),
    ("prefill_tokens_per_second", "Estimated prefill rate, on the slow side."),
    ("index_blocks", "Blocks that the worker is predicted to hold."),
    ("kv_events_live", "1 while its engine publishes cache events and none are missing."),
    ("hit_accuracy_ratio", "Agreement of predicted hits with those that the engine reports, 0 to 1."),
    ("hit_alarm", "1 while predicted hits are mostly wrong: cache events of the engine are not used."),
    ("connections", "Open connections to the worker."),
    ("engine_running", "Requests that the engine runs, as it reports, from all senders."),
    ("engine_waiting", "Requests in the engine's queue, as it reports."),
    ("engine_kv_usage_ratio", "Share of the engine's KV cache in use, 0 to 1."),
    ("reading_age_seconds", "Age of the engine's last report; old reports are not shown."),
)
