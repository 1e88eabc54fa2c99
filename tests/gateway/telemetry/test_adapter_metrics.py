"""Metrics of adapters."""

from prometheus_client import CollectorRegistry, generate_latest

from gateway.models.adapters.registry import AdapterRegistry
from gateway.telemetry.adapter_metrics import AdapterMetrics
from tests.gateway.models.adapters.engines import POET, LoadingWorker, a_shelf, a_subject, know
from tests.gateway.models.adapters.test_registry import running


def exposition(adapter_registry: AdapterRegistry) -> list[str]:
    registry = CollectorRegistry()
    registry.register(AdapterMetrics(adapter_registry))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


async def test_where_adapters_are_and_what_was_done() -> None:
    """A worker that never reported its adapters has no series."""
    a, b, c = LoadingWorker("a"), LoadingWorker("b"), LoadingWorker("c")
    subject = a_subject(POET, a, b, c)
    adapter_registry = a_shelf(subject)
    know(adapter_registry, {a: [], b: []})
    async with running(adapter_registry):
        await adapter_registry.bring(subject, b)

    assert [
        'warmgate_adapter_loaded{model="poet",worker="a"} 0.0',
        'warmgate_adapter_loaded{model="poet",worker="b"} 1.0',
        'warmgate_adapter_load_seconds{model="poet"} 0.0',
        'warmgate_adapter_loads_total{model="poet",result="loaded"} 1.0',
    ] == exposition(adapter_registry)


def test_nothing_without_adapters() -> None:
    assert [] == exposition(a_shelf())
