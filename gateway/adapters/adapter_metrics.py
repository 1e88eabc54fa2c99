"""What Prometheus sees of adapters: where they are, how long loading takes, what was loaded and unloaded."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.adapters.shelf import Shelf


class AdapterMetrics(Collector):
    """Read from *shelf* at every scrape."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def collect(self) -> Iterator[Metric]:
        loaded = GaugeMetricFamily(
            "warmgate_adapter_loaded",
            "1 where a worker has the model's LoRA adapter, 0 where it has not; nothing where nobody knows.",
            labels=("model", "worker"),
        )
        load_s = GaugeMetricFamily(
            "warmgate_adapter_load_seconds", "Believed time that a worker takes to load the adapter.", labels=("model",)
        )
        for subject in self._shelf:
            load_s.add_metric((subject.model,), self._shelf.load_s(subject.adapter.base) or 0.0)
            for worker, address in subject.addresses.items():
                holds = self._shelf.holds(address, subject.adapter)
                if holds is not None:
                    loaded.add_metric((subject.model, worker), float(holds))
        done = CounterMetricFamily(
            "warmgate_adapter_loads",
            "Loads of a model's adapter by result: loaded, failed, no_room; unloaded, to make room for another.",
            labels=("model", "result"),
        )
        for (model, result), count in self._shelf.tally.items():
            done.add_metric((model, result), count)
        yield from (loaded, load_s, done)
