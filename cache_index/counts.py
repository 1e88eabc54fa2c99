"""Counters of anomalies in the KV cache events of engines."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Number of blocks with each kind of anomaly, since the start of the gateway."""

    repeated: int = 0
    """Blocks that an engine stored again while it held them. They count as copies."""
    announced_again: int = 0
    """Blocks reported again in a sequence that starts at its first block. They do not count as copies."""
    contradicted: int = 0
    """Blocks that an engine stored under the hash of a held block with other content. New content replaces old."""
    refused: int = 0
    """Number of invalid events (not blocks): tokens do not fill the blocks, or two blocks have the same hash."""
    unknown_removals: int = 0
    """Blocks that an engine reported as removed although it did not hold them."""
    parked: int = 0
    """Blocks that wait for an unknown parent block or, if they were reported without tokens, for the tokens of an
    unknown hash.
    """
    attached: int = 0
    """Blocks that were added to the index as soon as their missing parent block was reported."""
    unparked: int = 0
    """Blocks that the engine removed while they were waiting for their parent block."""
    given_up: int = 0
    """Waiting blocks without a known parent that were dropped to make room for others."""
    crowded_out: int = 0
    """Blocks that were ignored because the index was full."""
    forgotten: int = 0
    """Blocks in slower tiers that were dropped from the index to make room for others."""
