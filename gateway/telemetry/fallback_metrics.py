"""Metrics about fallbacks: requests, skips, cost, and the health of fallback targets.

Counts are by model and backend. Target health is by backend only, because models share targets. If two targets have the
same id (a Bedrock model in two regions), the less healthy one is shown.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.backends.fallbacks.target import Target


class FallbackMetrics(Collector):
    """Prometheus collector that reads the fallbacks of all models at every scrape. *clock* must be the fallbacks'
    clock.
    """

    def __init__(self, by_model: Callable[[], Iterable[Fallbacks]], *, clock: Callable[[], float]) -> None:
        self._by_model = by_model
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        now = self._clock()
        by_model = [fallbacks for fallbacks in self._by_model() if fallbacks]
        yield from _counts(by_model)
        yield from _money(by_model, now)
        yield from _targets(by_model, now)


def _counts(by_model: Iterable[Fallbacks]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "warmgate_fallback_requests",
        "Requests sent to a fallback by outcome: answered, failed, left (client gone), unused (not served).",
        labels=("model", "backend", "outcome"),
    )
    skipped = CounterMetricFamily(
        "warmgate_fallback_skipped",
        "Times that the gateway skipped a fallback, by reason: not_served, too_long, breaker, rate, share, budget.",
        labels=("model", "backend", "reason"),
    )
    for fallbacks in by_model:
        for (backend, outcome), count in fallbacks.counts.requests.items():
            requests.add_metric((fallbacks.model, backend, outcome), count)
        for (backend, why), count in fallbacks.counts.skipped.items():
            skipped.add_metric((fallbacks.model, backend, why), count)
    yield from (requests, skipped)


def _money(by_model: Iterable[Fallbacks], now: float) -> Iterator[Metric]:
    spend = GaugeMetricFamily(
        "warmgate_fallback_spend_usd", "Cost of fallbacks within the last hour in US dollars.", labels=("model",)
    )
    held = GaugeMetricFamily(
        "warmgate_fallback_held_usd",
        "Maximum cost in US dollars of the fallback requests in flight.",
        labels=("model",),
    )
    for fallbacks in by_model:
        spend.add_metric((fallbacks.model,), fallbacks.budget.spent_usd(now))
        held.add_metric((fallbacks.model,), fallbacks.budget.held_usd)
    yield from (spend, held)


def _targets(by_model: Iterable[Fallbacks], now: float) -> Iterator[Metric]:
    by_backend: dict[str, dict[int, Target]] = {}
    for fallbacks in by_model:
        for fallback in fallbacks.in_order:
            by_backend.setdefault(fallback.id, {})[id(fallback.target)] = fallback.target

    def gauge(name: str, text: str, value: Callable[[list[Target]], float | None]) -> Metric:
        family = GaugeMetricFamily(f"warmgate_fallback_{name}", text, labels=("backend",))
        for backend, targets in by_backend.items():
            seen = value(list(targets.values()))
            if seen is not None:
                family.add_metric((backend,), seen)
        return family

    yield gauge(
        "rate_ratio",
        "Usable fraction of the fallback's rate limits: 0.1 after a pause, then growing to 1.",
        lambda targets: min(target.allowance.share(now) for target in targets),
    )
    yield gauge(
        "breaker_open",
        "1 while the fallback's circuit breaker is open.",
        lambda targets: max(float(target.breaker.is_open) for target in targets),
    )
    yield gauge(
        "canary_ok",
        "1 if the fallback's last canary request succeeded. Only Bedrock fallbacks get canary requests.",
        lambda targets: min((float(t.checked.ok) for t in targets if t.checked is not None), default=None),
    )
    yield gauge(
        "canary_age_seconds",
        "Seconds since the fallback's last canary request.",
        lambda targets: max((now - t.checked.at for t in targets if t.checked is not None), default=None),
    )
    yield gauge(
        "legacy",
        "1 if AWS marks the model as legacy, which means that it will be retired.",
        lambda targets: max(float(target.is_legacy) for target in targets),
    )
