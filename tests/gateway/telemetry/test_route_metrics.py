"""Metrics of routes."""

from prometheus_client import CollectorRegistry, generate_latest

from gateway.models.registry import Models
from gateway.models.routes.route import Route, RouteChoice
from gateway.models.routes.routes import RouteTable
from gateway.telemetry.route_metrics import RouteMetrics
from routing.variants import Variants


def exposition(models: Models) -> list[str]:
    registry = CollectorRegistry()
    registry.register(RouteMetrics(models))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_requests_by_choice_and_shares() -> None:
    models = Models()
    routes = RouteTable([Route("chat", first="a", variants=Variants({"a": 3.0, "b": 1.0}, key="chat"))])
    routes.counters[RouteChoice("chat", "b", "weight")] += 2
    models.routes = routes

    assert [
        'warmgate_route_requests_total{model="b",route="chat",rule="weight"} 2.0',
        'warmgate_route_share_ratio{model="a",route="chat"} 0.75',
        'warmgate_route_share_ratio{model="b",route="chat"} 0.25',
    ] == exposition(models)


def test_nothing_without_routes() -> None:
    assert [] == exposition(Models())
