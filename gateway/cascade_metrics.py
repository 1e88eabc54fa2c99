"""What Prometheus sees of fallbacks: who was asked, who was not and why, what it cost, and how they are.

Counts stand by model and backend. What is known of a target stands by backend alone, for models share it; where two
targets have one id (a model of Bedrock in two regions), the worse of them is shown.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.cascade.cascade import Cascade
from gateway.cascade.target import Target


class CascadeMetrics(Collector):
    """*cascades* and what is known of their targets are read when Prometheus asks; *clock* is the one they go by."""

    def __init__(self, cascades: Callable[[], Iterable[Cascade]], *, clock: Callable[[], float]) -> None:
        self._cascades = cascades
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        now = self._clock()
        cascades = [cascade for cascade in self._cascades() if cascade]
        yield from _counts(cascades)
        yield from _money(cascades, now)
        yield from _targets(cascades, now)


def _counts(cascades: Iterable[Cascade]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "warmgate_fallback_requests",
        "Requests sent to a fallback, by outcome: answered, failed, left (the caller), unused (could not be served).",
        labels=("model", "backend", "outcome"),
    )
    turned = CounterMetricFamily(
        "warmgate_fallback_turned",
        "Times that a fallback was passed over, by reason: not served, too long, breaker, rate, share, budget.",
        labels=("model", "backend", "why"),
    )
    for cascade in cascades:
        for (backend, outcome), count in cascade.counts.requests.items():
            requests.add_metric((cascade.model, backend, outcome), count)
        for (backend, why), count in cascade.counts.turned.items():
            turned.add_metric((cascade.model, backend, why), count)
    yield from (requests, turned)


def _money(cascades: Iterable[Cascade], now: float) -> Iterator[Metric]:
    spend = GaugeMetricFamily(
        "warmgate_fallback_spend_usd", "US dollars that fallbacks cost within the last hour.", labels=("model",)
    )
    held = GaugeMetricFamily(
        "warmgate_fallback_held_usd", "US dollars that requests on their way may cost at most.", labels=("model",)
    )
    for cascade in cascades:
        spend.add_metric((cascade.model,), cascade.budget.spent_usd(now))
        held.add_metric((cascade.model,), cascade.budget.held_usd)
    yield from (spend, held)


def _targets(cascades: Iterable[Cascade], now: float) -> Iterator[Metric]:
    by_backend: dict[str, dict[int, Target]] = {}
    for cascade in cascades:
        for fallback in cascade.fallbacks:
            by_backend.setdefault(fallback.id, {})[id(fallback.target)] = fallback.target

    def gauge(name: str, text: str, value: Callable[[list[Target]], float | None]) -> Metric:
        family = GaugeMetricFamily(f"warmgate_fallback_{name}", text, labels=("backend",))
        for backend, targets in by_backend.items():
            seen = value(list(targets.values()))
            if seen is not None:
                family.add_metric((backend,), seen)
        return family

    yield gauge(
        "rate",
        "Share of its rates that may be used at present: 0.1 after a pause, then growing to 1.",
        lambda targets: min(target.allowance.share(now) for target in targets),
    )
    yield gauge(
        "breaker_open",
        "1 while its failures keep requests away.",
        lambda targets: max(float(target.breaker.is_open) for target in targets),
    )
    yield gauge(
        "canary_ok",
        "1 if it answered when it was last tried out, which Bedrock is at the start and now and then.",
        lambda targets: min((float(t.checked.ok) for t in targets if t.checked is not None), default=None),
    )
    yield gauge(
        "canary_age_seconds",
        "Time since then.",
        lambda targets: max((now - t.checked.at for t in targets if t.checked is not None), default=None),
    )
    yield gauge(
        "legacy",
        "1 if AWS says that it is about to take the model away.",
        lambda targets: max(float(target.is_legacy) for target in targets),
    )
