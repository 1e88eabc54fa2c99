"""Metrics about routes: the models that they chose, and their configured traffic shares."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.models.registry import Models


class RouteMetrics(Collector):
    """Prometheus collector that reads the routes of *models* at every scrape."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def collect(self) -> Iterator[Metric]:
        chosen = CounterMetricFamily(
            "warmgate_route_requests",
            "Requests for a route by chosen model, and by what chose it (rule, weight or earlier response).",
            labels=("route", "model", "rule"),
        )
        shares = GaugeMetricFamily(
            "warmgate_route_share_ratio",
            "Configured fraction of a route's requests, by model.",
            labels=("route", "model"),
        )
        routes = self._models.routes
        if routes is not None:
            for choice, count in routes.counters.items():
                chosen.add_metric((choice.route, choice.model, choice.rule), count)
            for route in routes:
                for model, share in route.variants.shares.items():
                    shares.add_metric((route.name, model), share)
        yield from (chosen, shares)
