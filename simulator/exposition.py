"""Metrics page `GET /metrics`, with the metric names of the imitated engine."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from engine_model.engine import EngineLoad
from simulator.exchange import HttpExchange

_TTFT_BUCKETS_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)  # vLLM's


class MetricNames(Protocol):
    """Metric names of one engine."""

    @property
    def ttft(self) -> str: ...

    @property
    def finished(self) -> str | None:
        """Name of the metric that counts finished requests by reason, or None if the engine has no such metric."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels that all metrics have."""
        ...

    def families(self, load: EngineLoad) -> Iterable[Metric]: ...


class Exposition:
    """Metrics of one worker. *read_load* is called for each scrape, and *started_at* is in Unix seconds."""

    def __init__(
        self,
        names: MetricNames,
        read_load: Callable[[], EngineLoad],
        *,
        started_at: float,
        others: "Sequence[tuple[MetricNames, Callable[[], EngineLoad]]]" = (),
    ) -> None:
        """Create the metrics page. *others* are further data-parallel ranks, whose metrics appear on the same page."""
        self._registry = CollectorRegistry()
        self._registry.register(_LoadCollector([(names, read_load), *others], started_at=started_at))
        self._ttft = Histogram(
            names.ttft,
            "Seconds from the arrival of a request to its first token.",
            labelnames=tuple(names.labels),
            buckets=_TTFT_BUCKETS_S,
            registry=self._registry,
        ).labels(*names.labels.values())
        self._finished: dict[str, Counter] = {}
        if names.finished is not None:
            counter = Counter(
                names.finished,
                "Number of completed requests, by reason.",
                labelnames=(*names.labels, "finished_reason"),
                registry=self._registry,
            )
            for reason in ("stop", "length", "abort"):
                self._finished[reason] = counter.labels(*names.labels.values(), reason)

    def first_token(self, ttft_s: float) -> None:
        self._ttft.observe(ttft_s)

    def finished(self, reason: str) -> None:
        """Count a finished request. *reason* is "stop", "length" or "abort"."""
        if reason in self._finished:
            self._finished[reason].inc()

    def render(self) -> bytes:
        return generate_latest(self._registry)

    async def show(self, exchange: HttpExchange) -> None:
        await exchange.reply(200, self.render(), b"text/plain; version=0.0.4; charset=utf-8")


def gauge(name: str, text: str, value: float, labels: Mapping[str, str]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), value)
    return family


def counter(name: str, text: str, value: float, labels: Mapping[str, str]) -> Metric:
    family = CounterMetricFamily(name, text, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), value)
    return family


class _LoadCollector(Collector):
    def __init__(self, ranks: Sequence[tuple[MetricNames, Callable[[], EngineLoad]]], *, started_at: float) -> None:
        self._ranks = ranks
        self._started_at = started_at

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for names, read_load in self._ranks:
            for family in names.families(read_load()):
                first = families.setdefault(family.name, family)
                if first is not family:
                    first.samples += family.samples
        yield from families.values()
        yield GaugeMetricFamily(
            "process_start_time_seconds", "Unix time at which the worker started.", self._started_at
        )
