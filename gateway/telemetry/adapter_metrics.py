"""Metrics about LoRA adapters: workers that have loaded them, load times, and number of loads by result."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.models.adapters.registry import AdapterRegistry


class AdapterMetrics(Collector):
    """Prometheus collector that reads *adapter_registry* at every scrape."""

    def __init__(self, adapter_registry: AdapterRegistry) -> None:
        self._adapter_registry = adapter_registry

    def collect(self) -> Iterator[Metric]:
        loaded = GaugeMetricFamily(
            "warmgate_adapter_loaded",
            "1 if the worker has loaded the model's LoRA adapter, 0 if not. Absent if unknown.",
            labels=("model", "worker"),
        )
        load_s = GaugeMetricFamily(
            "warmgate_adapter_load_seconds",
            "Estimated seconds that a worker takes to load the model's LoRA adapter.",
            labels=("model",),
        )
        for subject in self._adapter_registry:
            load_s.add_metric((subject.model,), self._adapter_registry.load_s(subject.adapter.base) or 0.0)
            for worker, address in subject.addresses.items():
                holds = self._adapter_registry.holds(address, subject.adapter)
                if holds is not None:
                    loaded.add_metric((subject.model, worker), float(holds))
        done = CounterMetricFamily(
            "warmgate_adapter_loads",
            "Loads of the model's LoRA adapter by result: loaded, failed, no_room, or unloaded (to make room).",
            labels=("model", "result"),
        )
        for (model, result), count in self._adapter_registry.counters.items():
            done.add_metric((model, result), count)
        yield from (loaded, load_s, done)
