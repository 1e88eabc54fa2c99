"""Sums of ledger records. Money is counted in whole nano-dollars, because sums of floats would become inexact."""

from typing import NamedTuple

from gateway.tenancy.ledger.entry import NANO, Entry


class Measures(NamedTuple):
    """Counters for a group of requests, in the order of the stored sums. New counters must be added at the end."""

    requests: int = 0
    """Number of requests, independent of their outcome."""
    failed: int = 0
    aborted: int = 0
    lost: int = 0
    fallbacks: int = 0
    """Number of requests that Bedrock answered."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Number of prompt tokens that were read from the cache. The number of prompt tokens includes them."""
    completion_tokens: int = 0
    cost_nano: int = 0
    saved_nano: int = 0
    fallback_cost_nano: int = 0
    """Cost of the answers from Bedrock in nano-dollars. The total cost includes it."""


class Sum:
    """Running sum of ledger entries. To add an entry takes about 0.1 us."""

    __slots__ = (
        "_aborted",
        "_cached_tokens",
        "_completion_tokens",
        "_cost_nano",
        "_failed",
        "_fallback_cost_nano",
        "_fallbacks",
        "_lost",
        "_prompt_tokens",
        "_requests",
        "_saved_nano",
    )

    def __init__(self) -> None:
        self._requests = self._failed = self._aborted = self._lost = self._fallbacks = 0
        self._prompt_tokens = self._cached_tokens = self._completion_tokens = 0
        self._cost_nano = self._saved_nano = self._fallback_cost_nano = 0

    def add(self, entry: Entry) -> None:
        self._requests += 1
        if entry.outcome != "ok":
            self._failed += entry.outcome == "failed"
            self._aborted += entry.outcome == "aborted"
            self._lost += entry.outcome == "lost"
        self._prompt_tokens += entry.prompt_tokens
        self._cached_tokens += entry.cached_tokens
        self._completion_tokens += entry.completion_tokens
        self._cost_nano += entry.cost_nano
        self._saved_nano += entry.saved_nano
        if entry.fell_back:
            self._fallbacks += 1
            self._fallback_cost_nano += entry.cost_nano

    def measures(self) -> Measures:
        """Return the totals over all ledger entries that were added."""
        return Measures(
            self._requests,
            self._failed,
            self._aborted,
            self._lost,
            self._fallbacks,
            self._prompt_tokens,
            self._cached_tokens,
            self._completion_tokens,
            self._cost_nano,
            self._saved_nano,
            self._fallback_cost_nano,
        )


def measures_of(entry: Entry) -> Measures:
    """Return the measures of one ledger entry."""
    alone = Sum()
    alone.add(entry)
    return alone.measures()


def nano(usd: float) -> int:
    return round(usd * NANO)


def usd(nano: int) -> float:
    return nano / NANO
