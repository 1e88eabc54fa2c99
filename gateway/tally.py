"""What the requests of one model, or of one team, came to: counts and histograms, as plain numbers."""

import itertools
from bisect import bisect_left
from collections import defaultdict

from gateway.exchange import Exchange

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1)
_BLOCKS = (0, 1, 4, 16, 64, 256, 1024, 4096, 16384)


class Histogram:
    """How many values fell into each bucket, *bounds* being their upper ends."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Prometheus's buckets: each counts all values up to its bound."""
        bounds = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
        return list(zip(bounds, itertools.accumulate(self.counts), strict=True))


class Tally:
    """What one model's requests came to.

    Plain numbers, because one thread counts: the client library's counters take a lock each, and with a dozen per
    request that was a tenth of the gateway's time.
    """

    def __init__(self) -> None:
        self.requests: defaultdict[int, int] = defaultdict(int)
        self.errors: defaultdict[str, int] = defaultdict(int)
        self.decisions: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.retries = 0
        self.continued = 0
        self.fallbacks = 0
        self.prefills: defaultdict[str, int] = defaultdict(int)
        """Prompts of requests that could be divided, by where they were computed."""
        self.tokens = {"prompt": 0, "cached": 0, "predicted": 0, "completion": 0}
        self.histograms = {name: Histogram(bounds) for name, _, bounds in HISTOGRAMS}

    def observe(self, exchange: Exchange, now: float) -> None:
        self.requests[exchange.status] += 1
        if exchange.strategy is not None and exchange.reason is not None:
            self.decisions[exchange.strategy, exchange.reason] += 1
            self.histograms["hit_blocks"].observe(exchange.hit_blocks)
        if exchange.attempts > 1:
            self.retries += exchange.attempts - 1
        self.continued += exchange.continued
        self.fallbacks += exchange.fell_back
        if exchange.prefill is not None:
            self.prefills[exchange.prefill] += 1
        if exchange.error is None:
            self._answered(exchange, now)
        else:
            self.errors[exchange.error] += 1

    def _answered(self, exchange: Exchange, now: float) -> None:
        self.histograms["e2e_seconds"].observe(now - exchange.started)
        usage, first_byte = exchange.usage, exchange.first_byte
        if usage is not None:
            self.tokens["prompt"] += usage.prompt_tokens
            if usage.cached_tokens is not None:
                self.tokens["cached"] += usage.cached_tokens
                self.tokens["predicted"] += int(exchange.hit_tokens)
            self.tokens["completion"] += usage.completion_tokens
        if first_byte is not None:
            self.histograms["ttft_seconds"].observe(first_byte - exchange.started)
            if usage is not None and usage.completion_tokens > 1:
                self.histograms["tpot_seconds"].observe((now - first_byte) / (usage.completion_tokens - 1))


class TeamTally:
    """What one team's requests came to."""

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        """By status."""
        self.refused: dict[str, int] = {}
        """By the limit that turned them away."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.completion_tokens = 0
        self.workers_usd = 0.0
        """Cost of what workers answered."""
        self.fallback_usd = 0.0
        self.saved_usd = 0.0
        """That cached tokens did not cost."""

    def observe(self, exchange: Exchange) -> None:
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


class TeamCounts:
    """What the requests of every team came to."""

    def __init__(self) -> None:
        self.tallies: dict[str, TeamTally] = {}

    def observe(self, exchange: Exchange, now: float) -> None:  # noqa: ARG002  # as observers are asked
        """Count *exchange*, if a team is behind it."""
        team = exchange.team
        if team is None:
            return
        tally = self.tallies.get(team)
        if tally is None:
            tally = self.tallies[team] = TeamTally()
        tally.observe(exchange)


HISTOGRAMS = (
    ("ttft_seconds", "Time to first byte of a streamed answer.", _SECONDS),
    ("tpot_seconds", "Time per output token after the first.", _TOKEN_SECONDS),
    ("e2e_seconds", "Whole time of an answered request.", _SECONDS),
    ("hit_blocks", "Leading blocks of the prompt the chosen worker was believed to hold.", _BLOCKS),
)
