"""Metrics of batches."""

from prometheus_client import CollectorRegistry, generate_latest

from gateway.batch.counters import BatchCounters
from gateway.telemetry.batch_metrics import BatchMetrics


def exposition(counters: BatchCounters) -> list[str]:
    registry = CollectorRegistry()
    registry.register(BatchMetrics(counters))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_lines_and_batches_are_counted() -> None:
    counters = BatchCounters()
    counters.in_flight.update(tiny=3)
    counters.in_flight[""] = 1
    counters.lines.update(completed=5)
    counters.ended.update(expired=2)

    assert [
        'warmgate_batch_lines_in_flight{model="tiny"} 3.0',
        'warmgate_batch_lines_in_flight{model="unknown"} 1.0',
        'warmgate_batch_lines_total{result="completed"} 5.0',
        'warmgate_batches_ended_total{status="expired"} 2.0',
    ] == exposition(counters)


def test_nothing_without_batches() -> None:
    assert [] == exposition(BatchCounters())
