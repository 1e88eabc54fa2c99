"""What Prometheus sees of adapters."""

from prometheus_client import CollectorRegistry, generate_latest

from gateway.adapters.adapter_metrics import AdapterMetrics
from gateway.adapters.shelf import Shelf
from tests.gateway.adapters.engines import POET, LoadingWorker, a_shelf, a_subject, know
from tests.gateway.adapters.test_shelf import running


def exposition(shelf: Shelf) -> list[str]:
    registry = CollectorRegistry()
    registry.register(AdapterMetrics(shelf))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


async def test_where_adapters_are_and_what_was_done() -> None:
    """Of a worker that never told there is nothing to show."""
    a, b, c = LoadingWorker("a"), LoadingWorker("b"), LoadingWorker("c")
    subject = a_subject(POET, a, b, c)
    shelf = a_shelf(subject)
    know(shelf, {a: [], b: []})
    async with running(shelf):
        await shelf.bring(subject, b)

    assert [
        'warmgate_adapter_loaded{model="poet",worker="a"} 0.0',
        'warmgate_adapter_loaded{model="poet",worker="b"} 1.0',
        'warmgate_adapter_load_seconds{model="poet"} 0.0',
        'warmgate_adapter_loads_total{model="poet",result="loaded"} 1.0',
    ] == exposition(shelf)


def test_nothing_without_adapters() -> None:
    assert [] == exposition(a_shelf())
