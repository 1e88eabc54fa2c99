"""Metrics about the actions of guardrails. They never contain the texts that guardrails find."""

import logging
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.protocol.errors import GuardrailUnavailable
from gateway.proxy.guardrails.filter import Action, Direction

_log = logging.getLogger(__name__)

MAX_TEAMS = 1000
"""Maximum number of teams whose requests with a missing guardrail are counted separately."""


class GuardrailCounters(Collector):
    """Counter of requests for each guardrail, direction and action. Each combination counts a request only once."""

    def __init__(self) -> None:
        self._actions: Counter[tuple[str, Direction, Action]] = Counter()
        self._failures: Counter[str] = Counter()
        self._missing: Counter[str] = Counter()
        """Number of requests that were refused because a guardrail is missing, by team."""

    def acted(self, guardrail: str, direction: Direction, action: Action) -> None:
        self._actions[guardrail, direction, action] += 1

    def failed(self, guardrail: str) -> None:
        """Count a request or an answer that *guardrail* could not check."""
        self._failures[guardrail] += 1

    def missing(self, guardrail: str, team: str | None) -> GuardrailUnavailable:
        """Count and log a request of *team*, which uses the guardrail *guardrail* although it is not configured, and
        return the error to raise.
        """
        if len(self._missing) < MAX_TEAMS or (team or "") in self._missing:
            if (team or "") not in self._missing:
                _log.error(
                    "requests of team %r are refused, because its guardrail %r is not configured",
                    team,
                    guardrail,
                )
            self._missing[team or ""] += 1
        return GuardrailUnavailable(
            f"The guardrail {guardrail!r} of your team is not configured. Inform the administrator."
        )

    def collect(self) -> Iterator[Metric]:
        actions = CounterMetricFamily(
            "warmgate_guardrail_actions",
            "Requests and answers that a guardrail redacted, blocked or logged, by direction.",
            labels=("guardrail", "direction", "action"),
        )
        for labels, count in self._actions.items():
            actions.add_metric(labels, count)
        yield actions
        failures = CounterMetricFamily(
            "warmgate_guardrail_failures",
            "Requests and answers that a guardrail could not check.",
            labels=("guardrail",),
        )
        for guardrail, count in self._failures.items():
            failures.add_metric((guardrail,), count)
        yield failures
        missing = CounterMetricFamily(
            "warmgate_guardrail_missing",
            "Requests refused because their team names a guardrail that is not configured.",
            labels=("team",),
        )
        # The series without a team is always there: an alert on it always finds a series.
        for team, count in ({"": 0} | self._missing).items():
            missing.add_metric((team,), count)
        yield missing
