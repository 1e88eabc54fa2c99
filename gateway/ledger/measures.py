"""What records come to when they are added up. Money is counted in whole nano-dollars: sums of floats would drift."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from gateway.ledger.entry import UsageRecord

NANO = 1_000_000_000
"""A cached token of a small model costs some 10 nano-dollars; 64 bits hold nine billion dollars of them."""


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

    @classmethod
    def of(cls, record: UsageRecord) -> Self:
        return cls.total((record,))

    @classmethod
    def total(cls, records: Sequence[UsageRecord]) -> Self:
        """Of all *records* together; 0.6 us for each of many."""
        outcomes = [record.outcome for record in records]
        costs = [round(record.cost_usd * NANO) for record in records]
        fallback_costs = [cost for record, cost in zip(records, costs, strict=True) if record.fell_back]
        return cls(
            len(outcomes),
            outcomes.count("failed"),
            outcomes.count("aborted"),
            outcomes.count("lost"),
            len(fallback_costs),
            sum([record.prompt_tokens for record in records]),
            sum([record.cached_tokens for record in records]),
            sum([record.completion_tokens for record in records]),
            sum(costs),
            sum([round(record.saved_usd * NANO) for record in records]),
            sum(fallback_costs),
        )


def nano(usd: float) -> int:
    return round(usd * NANO)


def usd(nano: int) -> float:
    return nano / NANO
