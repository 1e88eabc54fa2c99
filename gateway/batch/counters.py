"""Counters of batches in this gateway, for metrics."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BatchCounters:
    """Counters since the start of the gateway."""

    lines: Counter[str] = field(default_factory=Counter)
    """Lines that this gateway finished, by result: completed or failed."""
    ended: Counter[str] = field(default_factory=Counter)
    """Batches that this gateway ended, by their last status."""
    in_flight: Counter[str] = field(default_factory=Counter)
    """Lines in flight, by configured model. Lines for unknown models have an empty name."""
