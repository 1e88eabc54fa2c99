"""Metrics of the store of keys and usage: whether it is available, and what is not written yet."""

from collections.abc import Callable, Iterator
from typing import Protocol, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.storage.unfit import UnfitState
from gateway.tenancy.teams.following import StoreState

UNFIT = frozenset(get_args(UnfitState))


class Ledger(Protocol):
    """Usage entries that are not written yet; see `gateway.tenancy.quota.quota_store.QuotaStore`."""

    @property
    def waiting_entries(self) -> int: ...

    @property
    def dropped_entries(self) -> int: ...


class StoreMetrics(Collector):
    """Metrics that read the state at every scrape. *keys_are_stale*: changes of keys and teams do not arrive."""

    def __init__(self, ledger: Ledger, *, keys_are_stale: Callable[[], bool], state: Callable[[], StoreState]) -> None:
        self._ledger = ledger
        self._keys_are_stale = keys_are_stale
        self._state = state

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "warmgate_key_store_unavailable",
            "1 while changes of keys and teams do not arrive: the known ones apply.",
            float(self._keys_are_stale()),
        )
        yield GaugeMetricFamily(
            "warmgate_store_unfit",
            "1 while the store answers and must not be used: its data is lost, or its pepper or schema is another.",
            float(self._state() in UNFIT),
        )
        yield GaugeMetricFamily(
            "warmgate_ledger_waiting", "Entries that are not written to the ledger yet.", self._ledger.waiting_entries
        )
        yield CounterMetricFamily(
            "warmgate_ledger_dropped",
            "Entries that were dropped because they could not be written and too many waited.",
            self._ledger.dropped_entries,
        )
