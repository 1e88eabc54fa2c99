"""What Prometheus sees of teams: their requests, tokens and money, and what limits turned away.

Teams are few; keys, users and projects are for the ledger.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.tally import TeamCounts, TeamTally


class TeamMetrics(Collector):
    """An `Observer` of endings, and what a registry collects. *is_degraded*: limits are held by less than the store."""

    def __init__(self, is_degraded: Callable[[], bool]) -> None:
        self._is_degraded = is_degraded
        counts = TeamCounts()
        self._tallies = counts.tallies
        # Itself, and no method that calls it: what counts is compiled, and this is not.
        self.observe = counts.observe

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "warmgate_quota_degraded", "1 while keys and limits are held without the store.", float(self._is_degraded())
        )

        def counter(
            name: str, text: str, samples: Callable[[TeamTally], Iterable[tuple[str, float]]], label: str
        ) -> Metric:
            family = CounterMetricFamily(f"warmgate_team_{name}", text, labels=("team", label))
            for team, tally in self._tallies.items():
                for value, count in samples(tally):
                    family.add_metric((team, value), count)
            return family

        yield counter(
            "requests",
            "Requests of a team by what it was told.",
            lambda t: [(str(status), n) for status, n in t.requests.items()],
            "status",
        )
        yield counter("refused", "Requests that a limit turned away, by which.", lambda t: t.refused.items(), "limit")
        yield counter(
            "tokens",
            "Tokens by kind: prompt, cached, completion.",
            lambda t: [("prompt", t.prompt_tokens), ("cached", t.cached_tokens), ("completion", t.completion_tokens)],
            "kind",
        )
        yield counter(
            "cost_usd",
            "US dollars, by who answered.",
            lambda t: [("workers", t.workers_usd), ("fallback", t.fallback_usd)],
            "by",
        )
        saved = CounterMetricFamily(
            "warmgate_team_saved_usd", "US dollars that cached tokens did not cost.", labels=("team",)
        )
        for team, tally in self._tallies.items():
            saved.add_metric((team,), tally.saved_usd)
        yield saved
