"""Metrics of kept answers."""

from prometheus_client import CollectorRegistry, generate_latest

from gateway.telemetry.response_cache_metrics import ResponseCacheMetrics
from tests.gateway.proxy.response_cache.examples import a_response_cache, an_answer


def test_requests_and_memory_are_counted() -> None:
    """Requests have a model and a result; memory is that of all models."""
    cache = a_response_cache()
    answer = an_answer()
    cache.store.keep(b"k", answer)
    cache.results["tiny", "hit"] += 2
    cache.results["tiny", "miss"] += 1
    registry = CollectorRegistry()
    registry.register(ResponseCacheMetrics(cache))
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]

    assert [
        'warmgate_response_cache_requests_total{model="tiny",result="hit"} 2.0',
        'warmgate_response_cache_requests_total{model="tiny",result="miss"} 1.0',
        "warmgate_response_cache_evictions_total 0.0",
        "warmgate_response_cache_answers 1.0",
        f"warmgate_response_cache_bytes {float(answer.size_bytes)}",
    ] == lines
