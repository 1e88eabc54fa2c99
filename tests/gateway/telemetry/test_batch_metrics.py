"""Metrics of batches."""

from prometheus_client import CollectorRegistry, generate_latest

from gateway.batch.counters import BatchCounters
from gateway.telemetry.batch_metrics import BatchMetrics


def exposition(counters: BatchCounters) -> list[str]:
    registry = CollectorRegistry()
    registry.register(BatchMetrics(counters, {("jobs", "failed"): 6}))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_lines_and_batches_are_counted() -> None:
    counters = BatchCounters()
    counters.in_flight.update(tiny=3)
    counters.in_flight[""] = 1
    counters.lines.update(completed=5)
    counters.interruptions.update(tiny=7)
    counters.ended.update(expired=2)
    counters.discarded.update(late=4)
    counters.discarded_nano.update(late=1_500_000_000)

    assert [
        'warmgate_batch_lines_in_flight{model="tiny"} 3.0',
        'warmgate_batch_lines_in_flight{model="unknown"} 1.0',
        'warmgate_batch_lines_total{result="completed"} 5.0',
        'warmgate_batch_interruptions_total{model="tiny"} 7.0',
        'warmgate_batches_ended_total{status="expired"} 2.0',
        'warmgate_batch_discarded_runs_total{reason="late"} 4.0',
        'warmgate_batch_discarded_cost_usd_total{reason="late"} 1.5',
        'warmgate_batch_webhook_deliveries_total{outcome="failed",receiver="jobs"} 6.0',
    ] == [line for line in exposition(counters) if not line.endswith(" 0.0")]


def test_counters_with_known_labels_begin_at_zero() -> None:
    """Prometheus does not see the first of something as an increase if the series begins with it."""
    assert [
        'warmgate_batch_lines_total{result="completed"} 0.0',
        'warmgate_batch_lines_total{result="failed"} 0.0',
        'warmgate_batches_ended_total{status="completed"} 0.0',
        'warmgate_batches_ended_total{status="failed"} 0.0',
        'warmgate_batches_ended_total{status="expired"} 0.0',
        'warmgate_batches_ended_total{status="cancelled"} 0.0',
        'warmgate_batch_discarded_runs_total{reason="retried"} 0.0',
        'warmgate_batch_discarded_runs_total{reason="stopped"} 0.0',
        'warmgate_batch_discarded_runs_total{reason="late"} 0.0',
        'warmgate_batch_discarded_cost_usd_total{reason="retried"} 0.0',
        'warmgate_batch_discarded_cost_usd_total{reason="stopped"} 0.0',
        'warmgate_batch_discarded_cost_usd_total{reason="late"} 0.0',
    ] == exposition(BatchCounters())[:-1]
