"""What records come to when they are added up. Money is counted in whole nano-dollars: sums of floats would drift."""

from typing import NamedTuple

from gateway.ledger.entry import NANO, Entry


class Measures(NamedTuple):
    """The order is that of stored rollups; new ones are added at the end."""

    requests: int = 0
    """All of them, however they ended."""
    failed: int = 0
    aborted: int = 0
    lost: int = 0
    fallbacks: int = 0
    """Answered by Bedrock."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt tokens."""
    completion_tokens: int = 0
    cost_nano: int = 0
    saved_nano: int = 0
    fallback_cost_nano: int = 0
    """Of the cost, for what Bedrock answered."""


class Sum:
    """Adds up entries; some 0.1 us for each."""

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
        """Of all that were added."""
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
    """What *entry* alone comes to."""
    alone = Sum()
    alone.add(entry)
    return alone.measures()


def nano(usd: float) -> int:
    return round(usd * NANO)


def usd(nano: int) -> float:
    return nano / NANO
