"""Metrics about the store for keys and usage: its availability, and the usage entries that wait to be written."""

from collections.abc import Callable, Iterator
from typing import Protocol, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.storage.unfit import UnfitState
from gateway.tenancy.teams.following import StoreState

UNFIT = frozenset(get_args(UnfitState))


class Ledger(Protocol):
    """Interface to the usage entries that wait to be written (see `gateway.tenancy.quota.quota_store.QuotaStore`)."""

    @property
    def waiting_entries(self) -> int: ...

    @property
    def dropped_entries(self) -> int: ...


class StoreMetrics(Collector):
    """Prometheus collector for the store. *keys_are_stale* returns True while changes to keys do not arrive."""

    def __init__(self, ledger: Ledger, *, keys_are_stale: Callable[[], bool], state: Callable[[], StoreState]) -> None:
        self._ledger = ledger
        self._keys_are_stale = keys_are_stale
        self._state = state

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "warmgate_key_store_unavailable",
            "1 while changes to keys and teams do not arrive and the last known ones apply.",
            float(self._keys_are_stale()),
        )
        yield GaugeMetricFamily(
            "warmgate_store_unfit",
            "1 while the store is reachable but unusable (data lost, or different pepper or schema version).",
            float(self._state() in UNFIT),
        )
        yield GaugeMetricFamily(
            "warmgate_ledger_waiting",
            "Usage entries waiting to be written to the ledger.",
            self._ledger.waiting_entries,
        )
        yield CounterMetricFamily(
            "warmgate_ledger_dropped",
            "Usage entries dropped because too many were waiting to be written to the ledger.",
            self._ledger.dropped_entries,
        )
