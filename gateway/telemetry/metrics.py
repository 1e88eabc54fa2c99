"""Prometheus metrics about requests and workers. Every label has few values, such as models, workers, statuses and
reasons.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from cache_index import CacheIndex
from gateway.models.model import Model
from gateway.telemetry.counters import CountersByModel, Histogram, RequestCounters

SLICE_LINES: Final = 64
"""Number of lines of the exposition that are written between two turns of the event loop. They take about 0.3 ms."""


class Metrics:
    """Registry of all Prometheus metrics, and an observer that counts completed requests."""

    def __init__(self) -> None:
        counts = CountersByModel()
        # The compiled method itself: a method here that called it would be interpreted.
        self.observe = counts.observe
        self.counters: Mapping[str, RequestCounters] = counts.counters
        """Counters of completed requests by model."""
        self._collectors: list[Collector] = [_RequestCollector(counts.counters)]

    def register(self, collector: Collector) -> None:
        """Add the metrics of *collector*, whose names no other collector uses."""
        self._collectors.append(collector)

    def collect(self) -> Iterator[Metric]:
        """Yield all families of metrics."""
        for collector in self._collectors:
            # What a collector reads can change while other tasks run.
            yield from [*collector.collect()]

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus text format 0.0.4."""
        return b"".join(self._slices())

    async def exposition_in_slices(self) -> bytes:
        """Return `exposition`, and let other tasks run after every `SLICE_LINES` lines.

        The metrics of one collector are of the same moment, and those of different collectors are not.
        """
        slices: list[bytes] = []
        for lines in self._slices():
            slices.append(lines)
            await asyncio.sleep(0)
        return b"".join(slices)

    def _slices(self) -> Iterator[bytes]:
        """Yield the exposition in pieces of at least `SLICE_LINES` lines. Each piece has whole families."""
        families: list[Metric] = []
        lines = 0
        for family in self.collect():
            families.append(family)
            lines += 2 + len(family.samples)
            if lines >= SLICE_LINES:
                yield generate_latest(_Collected(families))
                families, lines = [], 0
        yield generate_latest(_Collected(families))


class _Collected(Collector):
    """Metrics that were collected before."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class _RequestCollector(Collector):
    """Prometheus collector for the request counters by model."""

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
            "Completed requests by HTTP status.",
            lambda t: [((str(status),), n) for status, n in t.requests.items()],
            "status",
        )
        yield counter(
            "errors",
            "Requests that ended with an error, by error name.",
            lambda t: [((name,), n) for name, n in t.errors.items()],
            "error",
        )
        yield counter(
            "decisions",
            "Routing decisions by reason: hit, spread (load outweighed a longer hit), cold, none (no worker).",
            lambda t: t.decisions.items(),
            "strategy",
            "reason",
        )
        yield counter(
            "retries", "Retries, counted as attempts after the first one of each request.", lambda t: [((), t.retries)]
        )
        yield counter(
            "streams_continued", "Streams that another worker continued after a failure.", lambda t: [((), t.continued)]
        )
        yield counter(
            "prefills",
            "Prompts by place of prefill: remote (prefill worker), here (answering worker), failed.",
            lambda t: [((where,), n) for where, n in t.prefills.items()],
            "location",
        )
        yield counter("fallbacks", "Requests answered by a fallback.", lambda t: [((), t.fallbacks)])
        yield counter(
            "tokens",
            "Tokens by kind: prompt, cached, predicted (expected to be cached), completion.",
            _tokens,
            "kind",
        )
        for name, text, histogram_of in _HISTOGRAMS:
            family = HistogramMetricFamily(f"warmgate_{name}", text, labels=("model",))
            for model, counters in self._counters.items():
                histogram = histogram_of(counters)
                family.add_metric((model,), buckets=histogram.cumulative(), sum_value=histogram.total)
            yield family


_Samples = Iterable[tuple[tuple[str, ...], int]]


def _tokens(counters: RequestCounters) -> _Samples:
    yield ("prompt",), counters.prompt_tokens
    yield ("cached",), counters.cached_tokens
    yield ("predicted",), counters.predicted_tokens
    yield ("completion",), counters.completion_tokens


_HISTOGRAMS: tuple[tuple[str, str, Callable[[RequestCounters], Histogram]], ...] = (
    ("time_to_first_token_seconds", "Seconds to the first byte of a streamed response.", lambda t: t.ttft),
    ("time_per_output_token_seconds", "Seconds per output token after the first token.", lambda t: t.tpot),
    ("request_duration_seconds", "Seconds from start to end of a successful request.", lambda t: t.e2e),
    (
        "predicted_cached_tokens",
        "Prompt tokens predicted to be cached on the chosen worker.",
        lambda t: t.predicted_cached,
    ),
)


class StateCollector(Collector):
    """Prometheus collector whose gauges read the current state at every scrape, so that counting errors cannot
    accumulate.
    """

    def __init__(
        self, models: Iterable[Model], index: CacheIndex, *, max_index_bytes: int, clock: Callable[[], float]
    ) -> None:
        """Create a metrics collector that reads *models* at every scrape."""
        self._models = models
        self._index = index
        self._max_index_bytes = max_index_bytes
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "warmgate_index_bytes", "Memory in bytes used by the prefix index.", self._index.size_bytes
        )
        yield GaugeMetricFamily(
            "warmgate_index_max_bytes", "Memory limit in bytes of the prefix index.", self._max_index_bytes
        )
        yield from self._of_requests()
        yield from self._policies()
        yield from self._of_workers()

    def _of_requests(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("warmgate_requests_in_flight", "Requests in progress.", labels=("model",))
        for model in self._models:
            family.add_metric((model.name,), model.in_flight)
        yield family
        waiting = GaugeMetricFamily(
            "warmgate_requests_waiting", "Requests waiting for a worker to have free capacity.", labels=("model",)
        )
        oldest = GaugeMetricFamily(
            "warmgate_oldest_wait_seconds", "Seconds that the oldest waiting request has waited.", labels=("model",)
        )
        without = GaugeMetricFamily(
            "warmgate_requests_without_worker", "Requests waiting because the model has no worker.", labels=("model",)
        )
        for model in self._models:
            waiting.add_metric((model.name,), model.dispatch_queue.waiting)
            oldest.add_metric((model.name,), model.dispatch_queue.oldest_wait_s)
            without.add_metric((model.name,), model.arrivals.waiting)
        by_team = GaugeMetricFamily(
            "warmgate_team_requests_waiting",
            "Requests waiting for a worker to have free capacity, by team.",
            labels=("model", "team"),
        )
        for model in self._models:
            for team, count in model.dispatch_queue.waiting_by_team.items():
                if team:
                    by_team.add_metric((model.name, team), count)
        sessions = CounterMetricFamily(
            "warmgate_requests_by_session",
            "Requests by how their session was recognized: named, prompt (continues an earlier prompt), none.",
            labels=("model", "session"),
        )
        for model in self._models:
            for recognition, count in model.fleet.sessions.recognized.items():
                sessions.add_metric((model.name, recognition), count)
        yield from (waiting, oldest, without, by_team, sessions)

    def _policies(self) -> Iterator[Metric]:
        configured = GaugeMetricFamily(
            "warmgate_policy_configured", "1 for the configured routing strategy.", labels=("model", "policy")
        )
        effective = GaugeMetricFamily(
            "warmgate_policy_effective", "1 for the routing strategy currently in effect.", labels=("model", "policy")
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
    ("asleep", "1 while the worker's engine is asleep and gets no requests."),
    ("draining", "1 while the worker is draining and gets no new requests."),
    ("breaker_open", "1 while the worker's circuit breaker is open."),
    ("in_flight", "Requests in progress on the worker."),
    ("backlog_seconds", "Predicted seconds of queued prefill work ahead of a new request."),
    (
        "prefill_tokens_per_second",
        "Learned prefill rate of the worker in tokens per second, while it generates nothing.",
    ),
    ("ttft_error_ratio", "Mean error of recent predictions of the time to first token, relative to measured times."),
    ("ttft_bias_ratio", "Mean signed error of the same predictions. It is above 0 if predictions are too long."),
    ("index_blocks", "KV cache blocks that the worker is predicted to hold."),
    ("kv_events_live", "1 while the worker's cache events arrive without gaps."),
    ("hit_accuracy_ratio", "Accuracy of predicted cache hits compared with hits that the engine reports, 0 to 1."),
    ("hit_alarm", "1 while predicted cache hits are mostly wrong, so that the engine's cache events are ignored."),
    ("connections", "Open connections to the worker."),
    ("engine_running", "Running requests that the engine reports, from all clients of the engine."),
    ("engine_waiting", "Queued requests that the engine reports."),
    ("engine_kv_usage_ratio", "Fraction of the engine's KV cache that is in use, 0 to 1."),
    (
        "reading_age_seconds",
        "Age in seconds of the last reading of the engine's metrics. Outdated readings are not shown.",
    ),
)
