"""What Prometheus sees of teams: their requests, tokens and money, and what limits turned away.

Teams are few; keys, users and projects are for the ledger.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.exchange import Exchange


class _Account:
    """What the requests of one team came to."""

    def __init__(self) -> None:
        self.requests: defaultdict[int, int] = defaultdict(int)
        self.refused: defaultdict[str, int] = defaultdict(int)
        self.tokens = {"prompt": 0, "cached": 0, "completion": 0}
        self.cost_usd = {"workers": 0.0, "fallback": 0.0}
        self.saved_usd = 0.0


class TeamMetrics(Collector):
    """An `Observer` of endings, and what a registry collects. *is_degraded*: limits are held by less than the store."""

    def __init__(self, is_degraded: Callable[[], bool]) -> None:
        self._is_degraded = is_degraded
        self._accounts: dict[str, _Account] = {}

    def observe(self, exchange: Exchange, now: float) -> None:  # noqa: ARG002
        """Count *exchange*, if a team is behind it."""
        if exchange.team is None:
            return
        account = self._accounts.get(exchange.team)
        if account is None:
            account = self._accounts[exchange.team] = _Account()
        account.requests[exchange.status] += 1
        if exchange.refused_by is not None:
            account.refused[exchange.refused_by] += 1
        if exchange.usage is not None:
            account.tokens["prompt"] += exchange.usage.prompt_tokens
            account.tokens["cached"] += exchange.usage.cached_tokens or 0
            account.tokens["completion"] += exchange.usage.completion_tokens
        account.cost_usd["fallback" if exchange.fell_back else "workers"] += exchange.cost_usd
        account.saved_usd += exchange.saved_usd

    def settle(self) -> None:
        """Nothing: what is counted is counted."""

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "warmgate_quota_degraded", "1 while keys and limits are held without the store.", float(self._is_degraded())
        )

        def counter(
            name: str, text: str, samples: Callable[[_Account], Iterable[tuple[str, float]]], label: str
        ) -> Metric:
            family = CounterMetricFamily(f"warmgate_team_{name}", text, labels=("team", label))
            for team, account in self._accounts.items():
                for value, count in samples(account):
                    family.add_metric((team, value), count)
            return family

        yield counter(
            "requests",
            "Requests of a team by what it was told.",
            lambda a: [(str(status), n) for status, n in a.requests.items()],
            "status",
        )
        yield counter("refused", "Requests that a limit turned away, by which.", lambda a: a.refused.items(), "limit")
        yield counter("tokens", "Tokens by kind: prompt, cached, completion.", lambda a: a.tokens.items(), "kind")
        yield counter("cost_usd", "US dollars, by who answered.", lambda a: a.cost_usd.items(), "by")
        saved = CounterMetricFamily(
            "warmgate_team_saved_usd", "US dollars that cached tokens did not cost.", labels=("team",)
        )
        for team, account in self._accounts.items():
            saved.add_metric((team,), account.saved_usd)
        yield saved
