"""Counters of anomalies in the KV cache events of engines."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Number of blocks by kind of anomaly, since the start."""

    repeated: int = 0
    """Blocks that were stored again while they were held. They count as copies."""
    announced_again: int = 0
    """Blocks that were reported again as part of a sequence from its first block. They do not count as copies."""
    contradicted: int = 0
    """Blocks that were stored with the hash of a held block but other content. The new content replaces the old."""
    refused: int = 0
    """Number of invalid events (not blocks): the tokens do not fill the blocks, or two blocks have the same hash."""
    unknown_removals: int = 0
    """Blocks that were removed although they were not held."""
    parked: int = 0
    """Blocks that wait for an unknown parent block or, if reported without tokens, for the tokens of an
    unknown hash.
    """
    attached: int = 0
    """Blocks that were added to the index when their missing parent block was reported."""
    unparked: int = 0
    """Blocks that the engine removed while they waited for their parent block."""
    given_up: int = 0
    """Blocks without a known parent that were dropped to make room for others."""
    crowded_out: int = 0
    """Blocks that were ignored because the index was full."""
    forgotten: int = 0
    """Blocks that were dropped from slower tiers to make room for others."""
