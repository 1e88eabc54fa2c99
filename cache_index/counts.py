"""What was odd in what engines told of their caches."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """What was odd in what engines told, in blocks, since the start."""

    repeated: int = 0
    """Stored once more while they were held: copies."""
    announced_again: int = 0
    """Those of a sequence told again from its first block, which are no copies."""
    contradicted: int = 0
    """Stored with the hash of a held block and another content, which then counts."""
    refused: int = 0
    """Events, not blocks, that make no sense: tokens that do not fill the blocks, one hash for two of them."""
    unknown_removals: int = 0
    """Removed without being held."""
    parked: int = 0
    """Stored after a block that is not known, or told by hash alone with a hash that is not known."""
    attached: int = 0
    """Parked ones whose parent came."""
    unparked: int = 0
    """Parked ones that were removed."""
    given_up: int = 0
    """Parked ones that others took the place of."""
    crowded_out: int = 0
    """Not taken in because the index was full."""
    forgotten: int = 0
    """Of the slower tiers, given up to make room for others."""
