"""What guardrails have done: never what they found."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.guardrails.filter import Action, Direction


class GuardrailTally(Collector):
    """Counts requests, once for each guardrail, direction and action."""

    def __init__(self) -> None:
        self._actions: Counter[tuple[str, Direction, Action]] = Counter()
        self._failures: Counter[str] = Counter()

    def acted(self, guardrail: str, direction: Direction, action: Action) -> None:
        self._actions[guardrail, direction, action] += 1

    def failed(self, guardrail: str) -> None:
        """Nobody could say what it makes of a request or an answer."""
        self._failures[guardrail] += 1

    def collect(self) -> Iterator[Metric]:
        actions = CounterMetricFamily(
            "warmgate_guardrail_actions",
            "Requests that a guardrail redacted, blocked, or logged; by direction.",
            labels=("guardrail", "direction", "action"),
        )
        for labels, count in self._actions.items():
            actions.add_metric(labels, count)
        yield actions
        failures = CounterMetricFamily(
            "warmgate_guardrail_failures",
            "Questions to a guardrail that it did not answer.",
            labels=("guardrail",),
        )
        for guardrail, count in self._failures.items():
            failures.add_metric((guardrail,), count)
        yield failures
