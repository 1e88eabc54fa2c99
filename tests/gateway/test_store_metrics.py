"""What Prometheus sees of the store."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest

from gateway.store_metrics import StoreMetrics


@dataclass
class Behind:
    """A ledger that is behind by so much."""

    waiting_entries: int = 0
    dropped_entries: int = 0


def seen(metrics: StoreMetrics) -> list[str]:
    registry = CollectorRegistry()
    registry.register(metrics)
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_what_the_ledger_lacks_is_told() -> None:
    """What waits comes yet; what was dropped never does."""
    metrics = StoreMetrics(Behind(waiting_entries=7, dropped_entries=2), keys_are_stale=lambda: False)

    assert ["warmgate_key_store_away 0.0", "warmgate_ledger_waiting 7.0", "warmgate_ledger_dropped_total 2.0"] == seen(
        metrics
    )


def test_keys_whose_changes_cannot_be_heard_are_a_gauge() -> None:
    """Looked at anew each time."""
    away = [True]
    metrics = StoreMetrics(Behind(), keys_are_stale=lambda: away[0])

    assert "warmgate_key_store_away 1.0" in seen(metrics)

    away[0] = False

    assert "warmgate_key_store_away 0.0" in seen(metrics)
