"""What Prometheus sees of routes: where they led, and the shares that they should have."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.models import Models


class RouteMetrics(Collector):
    """Read from the routes of *models* at every scrape."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def collect(self) -> Iterator[Metric]:
        chosen = CounterMetricFamily(
            "warmgate_route_requests",
            "Requests for a route by the model that they got, and by the rule, weight or response that chose it.",
            labels=("route", "model", "rule"),
        )
        shares = GaugeMetricFamily(
            "warmgate_route_share", "Share of a route's requests that a model is to have.", labels=("route", "model")
        )
        routes = self._models.routes
        if routes is not None:
            for choice, count in routes.tally.items():
                chosen.add_metric((choice.route, choice.model, choice.rule), count)
            for route in routes:
                for model, share in route.variants.shares.items():
                    shares.add_metric((route.name, model), share)
        yield from (chosen, shares)
