"""Metrics about batches: lines, interruptions, discarded runs, batches that ended, and their webhooks."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.batch.counters import BatchCounters
from gateway.telemetry.alert_delivery.delivery import Outcome
from gateway.tenancy.ledger.entry import NANO


class BatchMetrics(Collector):
    """Prometheus collector that reads *counters* at every scrape, and the *deliveries* of webhooks by receiver."""

    def __init__(self, counters: BatchCounters, deliveries: Mapping[tuple[str, Outcome], int]) -> None:
        self._counters = counters
        self._deliveries = deliveries

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
        interruptions = CounterMetricFamily(
            "warmgate_batch_interruptions",
            "Interruptions of lines whose prompts a worker computed, because another request needed the worker.",
            labels=("model",),
        )
        for model, count in self._counters.interruptions.items():
            interruptions.add_metric((model,), count)
        ended = CounterMetricFamily(
            "warmgate_batches_ended",
            "Batches that this gateway ended by status: completed, failed, expired or cancelled.",
            labels=("status",),
        )
        for status, count in self._counters.ended.items():
            ended.add_metric((status,), count)
        discarded = CounterMetricFamily(
            "warmgate_batch_discarded_runs",
            "Runs of lines whose answers were not used, and which are not in the ledger. Reason: retried, stopped or "
            "late.",
            labels=("reason",),
        )
        for reason, count in self._counters.discarded.items():
            discarded.add_metric((reason,), count)
        cost = CounterMetricFamily(
            "warmgate_batch_discarded_cost_usd",
            "Cost in US dollars of the runs in warmgate_batch_discarded_runs_total.",
            labels=("reason",),
        )
        for reason, nano in self._counters.discarded_nano.items():
            cost.add_metric((reason,), nano / NANO)
        deliveries = CounterMetricFamily(
            "warmgate_batch_webhook_deliveries",
            "Attempts of this gateway to deliver an event of a batch, by receiver and outcome: delivered, failed or "
            "dropped.",
            labels=("receiver", "outcome"),
        )
        for (receiver, outcome), count in self._deliveries.items():
            deliveries.add_metric((receiver, outcome), count)
        yield from (in_flight, lines, interruptions, ended, discarded, cost, deliveries)
