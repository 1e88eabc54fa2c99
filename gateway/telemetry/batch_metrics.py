"""Metrics about batches: lines in flight, finished lines, and batches that ended."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.batch.counters import BatchCounters


class BatchMetrics(Collector):
    """Prometheus collector that reads *counters* at every scrape."""

    def __init__(self, counters: BatchCounters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        in_flight = GaugeMetricFamily(
            "warmgate_batch_lines_in_flight", "Lines of batches that this gateway has in flight.", labels=("model",)
        )
        for model, count in self._counters.in_flight.items():
            in_flight.add_metric((model or "unknown",), count)
        lines = CounterMetricFamily(
            "warmgate_batch_lines", "Lines of batches by result: completed or failed.", labels=("result",)
        )
        for result, count in self._counters.lines.items():
            lines.add_metric((result,), count)
        ended = CounterMetricFamily(
            "warmgate_batches_ended",
            "Batches that this gateway ended by status: completed, failed, expired or cancelled.",
            labels=("status",),
        )
        for status, count in self._counters.ended.items():
            ended.add_metric((status,), count)
        yield from (in_flight, lines, ended)
