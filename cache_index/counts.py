"""Counts of anomalies in the engines' reports of their caches."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Blocks by kind of anomaly, since the start."""

    repeated: int = 0
    """Stored again while they were held: copies."""
    announced_again: int = 0
    """Reported again from the first block of a sequence on, which does not count as copies."""
    contradicted: int = 0
    """Stored with the hash of a held block and another content, which then counts."""
    refused: int = 0
    """Events, not blocks, that are invalid: tokens that do not fill the blocks, or one hash for two of them."""
    unknown_removals: int = 0
    """Removed without being held."""
    parked: int = 0
    """Stored after an unknown block, or by an unknown hash without tokens."""
    attached: int = 0
    """Parked blocks whose parent came."""
    unparked: int = 0
    """Parked blocks that were removed."""
    given_up: int = 0
    """Parked blocks that made room for others."""
    crowded_out: int = 0
    """Ignored because the index was full."""
    forgotten: int = 0
    """Dropped from the slower tiers to make room for others."""
