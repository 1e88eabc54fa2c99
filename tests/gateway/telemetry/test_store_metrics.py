"""Metrics of the store."""

from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gateway.telemetry.store_metrics import StoreMetrics
from gateway.tenancy.teams.following import StoreState


@dataclass
class Behind:
    """A ledger that is behind by so much."""

    waiting_entries: int = 0
    dropped_entries: int = 0


def seen(metrics: StoreMetrics) -> list[str]:
    registry = CollectorRegistry()
    registry.register(metrics)
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_entries_that_the_ledger_lacks_are_shown() -> None:
    """What waits comes yet; what was dropped never does."""
    metrics = StoreMetrics(
        Behind(waiting_entries=7, dropped_entries=2), keys_are_stale=lambda: False, state=lambda: "ready"
    )

    assert [
        "warmgate_key_store_unavailable 0.0",
        "warmgate_store_unfit 0.0",
        "warmgate_ledger_waiting 7.0",
        "warmgate_ledger_dropped_total 2.0",
    ] == seen(metrics)


def test_keys_whose_changes_cannot_be_heard_are_a_gauge() -> None:
    """The state is read at each scrape."""
    away = [True]
    metrics = StoreMetrics(Behind(), keys_are_stale=lambda: away[0], state=lambda: "away")

    assert "warmgate_key_store_unavailable 1.0" in seen(metrics)

    away[0] = False

    assert "warmgate_key_store_unavailable 0.0" in seen(metrics)


@pytest.mark.parametrize(
    ("state", "value"),
    [("ready", "0.0"), ("awaited", "0.0"), ("away", "0.0"), ("lost", "1.0"), ("pepper_differs", "1.0")],
)
def test_a_store_that_must_not_be_used_is_a_gauge(state: StoreState, value: str) -> None:
    """One that is away is not such a store: it comes back by itself."""
    metrics = StoreMetrics(Behind(), keys_are_stale=lambda: True, state=lambda: state)

    assert f"warmgate_store_unfit {value}" in seen(metrics)
