"""Counters of batches in this gateway, for metrics."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


def _zeros(*names: str) -> Callable[[], Counter[str]]:
    """Return a function that creates a counter with *names* at 0.

    Prometheus computes an increase from a series that exists, so the first of something is seen only if the 0 before it
    is reported.
    """
    return lambda: Counter(dict.fromkeys(names, 0))


@dataclass(frozen=True, slots=True)
class BatchCounters:
    """Counters since the start of the gateway."""

    lines: Counter[str] = field(default_factory=_zeros("completed", "failed"))
    """Lines that this gateway finished, by result: completed or failed."""
    discarded: Counter[str] = field(default_factory=_zeros("retried", "stopped", "late"))
    """Runs of lines that were charged to limits, but have no ledger entry because their answers were not used. By
    reason: retried, stopped, or late if the line had a result already or its batch had ended.
    """
    discarded_nano: Counter[str] = field(default_factory=_zeros("retried", "stopped", "late"))
    """Cost of these runs in nano-dollars, by reason."""
    interruptions: Counter[str] = field(default_factory=Counter)
    """Interruptions of lines for other requests, by configured model."""
    ended: Counter[str] = field(default_factory=_zeros("completed", "failed", "expired", "cancelled"))
    """Batches that this gateway ended, by their last status."""
    in_flight: Counter[str] = field(default_factory=Counter)
    """Lines in flight, by configured model. Lines for unknown models have an empty name."""
