"""Counters and histograms of completed requests, by model and by team, as plain numbers."""

import itertools
from typing import Final

from gateway.proxy.completed_requests import CompletedRequest
from gateway.proxy.exchange import Exchange

UNKNOWN: Final = "unknown"
"""Value of the metric label ``model`` for requests for a model that is not configured."""

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1)
_TOKENS = (0, 16, 64, 256, 1024, 4096, 16384, 65536, 262144)


class Histogram:
    """Histogram of values. *bounds* are the upper bounds of its buckets."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = tuple(float(bound) for bound in bounds)  # compiled, an int among them would cost a new float
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        bucket = 0
        for bound in self.bounds:  # compiled, sooner done than bisect is called
            if value <= bound:
                break
            bucket += 1
        self.counts[bucket] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Return the buckets in Prometheus's format, in which each bucket counts all values up to its upper bound."""
        bounds = [*(str(bound) for bound in self.bounds), "+Inf"]
        return list(zip(bounds, itertools.accumulate(self.counts), strict=True))


class RequestCounters:
    """Counters for the requests of one model.

    They are plain numbers because only one thread counts. The counters of Prometheus's client library take a lock each,
    and a dozen per request took a tenth of the gateway's time.
    """

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        """Number of requests by HTTP status."""
        self.errors: dict[str, int] = {}
        self.decisions: dict[tuple[str, str], int] = {}
        self.retries = 0
        self.continued = 0
        self.fallbacks = 0
        self.prefills: dict[str, int] = {}
        """Number of prompts by the place of their prefill, for requests that allow a separate prefill worker."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.predicted_tokens = 0
        """Number of prompt tokens predicted to be cached, for requests whose engine reported cached tokens."""
        self.completion_tokens = 0
        self.ttft = Histogram(_SECONDS)
        self.tpot = Histogram(_TOKEN_SECONDS)
        self.e2e = Histogram(_SECONDS)
        self.predicted_cached = Histogram(_TOKENS)

    def observe(self, ending: CompletedRequest) -> None:
        exchange = ending.exchange
        self.requests[exchange.status] = self.requests.get(exchange.status, 0) + 1
        if exchange.strategy is not None and exchange.reason is not None:
            decision = (exchange.strategy, exchange.reason)
            self.decisions[decision] = self.decisions.get(decision, 0) + 1
            self.predicted_cached.observe(exchange.hit_tokens)
        if exchange.attempts > 1:
            self.retries += exchange.attempts - 1
        self.continued += exchange.continued
        self.fallbacks += exchange.fell_back
        if exchange.prefill is not None:
            self.prefills[exchange.prefill] = self.prefills.get(exchange.prefill, 0) + 1
        if exchange.error is None:
            self._answered(exchange, ending)
        else:
            self.errors[exchange.error] = self.errors.get(exchange.error, 0) + 1

    def _answered(self, exchange: Exchange, ending: CompletedRequest) -> None:
        self.e2e.observe(ending.at - exchange.started)
        usage, first_byte = exchange.usage, exchange.first_byte
        if usage is not None:
            self.prompt_tokens += usage.prompt_tokens
            self.completion_tokens += usage.completion_tokens
            if usage.cached_tokens is not None:
                self.cached_tokens += usage.cached_tokens
                self.predicted_tokens += int(exchange.hit_tokens)
        if first_byte is not None:
            self.ttft.observe(first_byte - exchange.started)
            if usage is not None and usage.completion_tokens > 1:
                self.tpot.observe((ending.at - first_byte) / (usage.completion_tokens - 1))


class CountersByModel:
    """Request counters by model name."""

    def __init__(self) -> None:
        self.counters: dict[str, RequestCounters] = {}

    def observe(self, completed: list[CompletedRequest]) -> None:
        """Count each completed request for its model."""
        for ending in completed:
            name = ending.exchange.model or UNKNOWN
            counters = self.counters.get(name)
            if counters is None:
                counters = self.counters[name] = RequestCounters()
            counters.observe(ending)


class TeamCounters:
    """Counters for the requests of one team."""

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        """Number of requests by HTTP status."""
        self.refused: dict[str, int] = {}
        """Number of rejected requests by the limit that rejected them."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.completion_tokens = 0
        self.workers_usd = 0.0
        """Cost of requests in US dollars that workers answered."""
        self.fallback_usd = 0.0
        self.saved_usd = 0.0
        """Cost in US dollars that cached tokens have saved."""

    def observe(self, ending: CompletedRequest) -> None:
        exchange = ending.exchange
        self.requests[exchange.status] = self.requests.get(exchange.status, 0) + 1
        if exchange.refused_by is not None:
            self.refused[exchange.refused_by] = self.refused.get(exchange.refused_by, 0) + 1
        usage = exchange.usage
        if usage is not None:
            self.prompt_tokens += usage.prompt_tokens
            self.cached_tokens += usage.cached_tokens or 0
            self.completion_tokens += usage.completion_tokens
        if exchange.fell_back:
            self.fallback_usd += exchange.cost_usd
        else:
            self.workers_usd += exchange.cost_usd
        self.saved_usd += exchange.saved_usd


class CountersByTeam:
    """Request counters by team name."""

    def __init__(self) -> None:
        self.counters: dict[str, TeamCounters] = {}

    def observe(self, completed: list[CompletedRequest]) -> None:
        """Count each completed request that belongs to a team."""
        for ending in completed:
            team = ending.exchange.team
            if team is None:
                continue
            counters = self.counters.get(team)
            if counters is None:
                counters = self.counters[team] = TeamCounters()
            counters.observe(ending)
