"""What Prometheus sees of routes."""

from prometheus_client import CollectorRegistry, generate_latest

from gateway.models import Models
from gateway.rollout.route import Choice, Route
from gateway.rollout.route_metrics import RouteMetrics
from gateway.rollout.routes import Routes
from routing.variants import Variants


def exposition(models: Models) -> list[str]:
    registry = CollectorRegistry()
    registry.register(RouteMetrics(models))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_requests_by_choice_and_shares() -> None:
    models = Models()
    routes = Routes([Route("chat", first="a", variants=Variants({"a": 3.0, "b": 1.0}, key="chat"))])
    routes.tally[Choice("chat", "b", "weight")] += 2
    models.routes = routes

    assert [
        'warmgate_route_requests_total{model="b",route="chat",rule="weight"} 2.0',
        'warmgate_route_share{model="a",route="chat"} 0.75',
        'warmgate_route_share{model="b",route="chat"} 0.25',
    ] == exposition(models)


def test_nothing_without_routes() -> None:
    assert [] == exposition(Models())
