"""Metrics about kept answers: requests by result, and the memory of the answers."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.proxy.response_cache.response_cache import ResponseCache


class ResponseCacheMetrics(Collector):
    """Prometheus collector that reads *cache* at every scrape."""

    def __init__(self, cache: ResponseCache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "warmgate_response_cache_requests",
            "Requests that may use kept answers, by result: hit, shared (the answer of an identical request in "
            "flight), miss, uncacheable.",
            labels=("model", "result"),
        )
        for (model, result), count in self._cache.results.items():
            requests.add_metric((model, result), count)
        store = self._cache.store
        yield requests
        yield CounterMetricFamily(
            "warmgate_response_cache_evictions", "Kept answers that were removed to make room.", store.evicted
        )
        yield GaugeMetricFamily("warmgate_response_cache_answers", "Kept answers.", len(store))
        yield GaugeMetricFamily(
            "warmgate_response_cache_bytes", "Memory in bytes of all kept answers.", store.size_bytes
        )
