"""What Prometheus sees. Every label has few values: configured models and workers, strategies, statuses, reasons."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from cache_index import CacheIndex
from gateway.model import Model
from gateway.tally import Histogram, ModelCounts, Tally


class Metrics:
    """An `Observer` of endings: its counts, and whatever else is registered, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counts = ModelCounts()
        # Itself, and no method that calls it: what counts is compiled, and this is not.
        self.observe = counts.observe
        self.registry.register(_TallyCollector(counts.tallies))

    def exposition(self) -> bytes:
        """Prometheus text format 0.0.4."""
        return generate_latest(self.registry)


class _TallyCollector(Collector):
    """Tells Prometheus what has been tallied, by model."""

    def __init__(self, tallies: Mapping[str, Tally]) -> None:
        self._tallies = tallies

    def collect(self) -> Iterator[Metric]:
        def counter(name: str, text: str, samples: Callable[[Tally], _Samples], *labels: str) -> Metric:
            family = CounterMetricFamily(f"warmgate_{name}", text, labels=("model", *labels))
            for model, tally in self._tallies.items():
                for values, count in samples(tally):
                    family.add_metric((model, *values), count)
            return family

        yield counter(
            "requests",
            "Requests by what the caller was told.",
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
            "Choices of a worker: hit, spread (a longer hit cost more), cold, none (nobody there).",
            lambda t: t.decisions.items(),
            "strategy",
            "reason",
        )
        yield counter("retries", "Attempts beyond a request's first.", lambda t: [((), t.retries)])
        yield counter(
            "streams_continued", "Times that another worker went on with a stream.", lambda t: [((), t.continued)]
        )
        yield counter(
            "prefills",
            "Prompts by where they were computed: remote (on a prefill worker), here (who answers), failed.",
            lambda t: [((where,), n) for where, n in t.prefills.items()],
            "where",
        )
        yield counter("fallbacks", "Requests that a fallback answered.", lambda t: [((), t.fallbacks)])
        yield counter(
            "tokens",
            "Tokens by kind: prompt, cached, predicted (to be cached, where the engine tells what was), completion.",
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
            for model, tally in self._tallies.items():
                histogram = histogram_of(tally)
                family.add_metric((model,), buckets=histogram.cumulative(), sum_value=histogram.total)
            yield family


_Samples = Iterable[tuple[tuple[str, ...], int]]

_HISTOGRAMS: tuple[tuple[str, str, Callable[[Tally], Histogram]], ...] = (
    ("ttft_seconds", "Time to first byte of a streamed answer.", lambda t: t.ttft),
    ("tpot_seconds", "Time per output token after the first.", lambda t: t.tpot),
    ("e2e_seconds", "Whole time of an answered request.", lambda t: t.e2e),
    ("hit_blocks", "Leading blocks of the prompt the chosen worker was believed to hold.", lambda t: t.hit_blocks),
)


class StateCollector(Collector):
    """Gauges read from the state itself when asked: what is not counted up and down cannot leak."""

    def __init__(
        self, models: Iterable[Model], index: CacheIndex, *, max_index_bytes: int, clock: Callable[[], float]
    ) -> None:
        """*models* are read anew at every scrape."""
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
            "warmgate_requests_waiting", "Requests that are held until a worker is about to be free.", labels=("model",)
        )
        oldest = GaugeMetricFamily(
            "warmgate_oldest_wait_seconds", "How long the one is held that is held longest.", labels=("model",)
        )
        without = GaugeMetricFamily(
            "warmgate_requests_without_worker", "Requests that wait because no worker is there.", labels=("model",)
        )
        for model in self._models:
            waiting.add_metric((model.name,), model.turnstile.waiting)
            oldest.add_metric((model.name,), model.turnstile.oldest_wait_s)
            without.add_metric((model.name,), model.arrivals.waiting)
        by_team = GaugeMetricFamily(
            "warmgate_team_requests_waiting", "The same by team, of those that have any.", labels=("model", "team")
        )
        for model in self._models:
            for team, count in model.turnstile.waiting_by_team.items():
                if team:
                    by_team.add_metric((model.name, team), count)
        yield from (waiting, oldest, without, by_team)

    def _policies(self) -> Iterator[Metric]:
        configured = GaugeMetricFamily(
            "warmgate_policy_configured", "1 for the strategy that settings name.", labels=("model", "policy")
        )
        effective = GaugeMetricFamily(
            "warmgate_policy_effective", "1 for what the strategy comes to at this moment.", labels=("model", "policy")
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
            "warmgate_worker_role", "1 for what the worker does of a request.", labels=("model", "worker", "role")
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
    ("asleep", "1 while the worker's engine says that it sleeps: it gets no requests."),
    ("draining", "1 while it is to have no requests; in_flight tells when it is drained."),
    ("breaker_open", "1 while its breaker keeps requests away."),
    ("in_flight", "Requests on the worker."),
    ("backlog_seconds", "Predicted prefill standing before a new request."),
    ("prefill_tokens_per_second", "Believed prefill rate, on the slow side of what was learnt."),
    ("index_blocks", "Blocks the worker is believed to hold."),
    ("cache_told", "1 while its engine tells of its cache, and nothing of it is missing."),
    ("hit_accuracy", "How far predicted hits agree with what the engine reports, 0 to 1."),
    ("hit_alarm", "1 while predicted hits are mostly wrong: they are not used where the engine told them."),
    ("connections", "Open connections to the worker."),
    ("engine_running", "Requests that the engine computes, by its own account, whoever sent them."),
    ("engine_waiting", "Requests in the engine's queue, by its own account."),
    ("engine_kv_usage", "Share of the engine's KV cache in use, 0 to 1."),
    ("reading_age_seconds", "Time since the engine told this of itself; old tellings are not shown."),
)
