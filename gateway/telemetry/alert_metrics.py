"""Metrics about alerts: how many were recorded, and the outcomes of their deliveries."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.telemetry.alert_delivery.delivery import Delivery
from gateway.tenancy.alerts.alert import Alert
from gateway.tenancy.alerts.budget_watch import BudgetWatch
from gateway.tenancy.alerts.spend_watch import SpendWatch


class AlertMetrics(Collector):
    """Prometheus collector that reads the watches of budgets and of spend, and *delivery*, at every scrape."""

    def __init__(self, watch: BudgetWatch, spend: SpendWatch | None, delivery: Delivery[Alert]) -> None:
        self._watch = watch
        self._spend = spend
        self._delivery = delivery

    def collect(self) -> Iterator[Metric]:
        recorded = CounterMetricFamily(
            "warmgate_alerts",
            "Alerts about budgets and unusual spend by outcome: recorded, or crowded if a team had too many.",
            labels=("outcome",),
        )
        recorded.add_metric(("recorded",), self._watch.added + (0 if self._spend is None else self._spend.added))
        recorded.add_metric(("crowded",), self._watch.crowded)
        deliveries = CounterMetricFamily(
            "warmgate_alert_deliveries",
            "Attempts of this gateway to deliver an alert, by receiver and outcome: delivered, failed or dropped.",
            labels=("receiver", "outcome"),
        )
        for (receiver, outcome), count in self._delivery.counts.items():
            deliveries.add_metric((receiver, outcome), count)
        yield from (recorded, deliveries)
