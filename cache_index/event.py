"""Events of an engine's KV cache: blocks stored, blocks removed, and all blocks cleared.

The events are the same for all engines, because the gateway decodes their wire formats. The block hashes of an engine
are opaque and valid only for the worker that sent them.
"""

from enum import Enum

import msgspec


class Tier(Enum):
    """Kind of memory in which a worker keeps a block."""

    GPU = "gpu"
    CPU = "cpu"
    DISK = "disk"
    SHARED = "shared"
    """Storage outside the worker from which all workers can load blocks."""


class Stored(msgspec.Struct, frozen=True, gc=False):
    """Event: the engine stored consecutive blocks. Each hash covers its block and all blocks before it."""

    hashes: list[int]
    parent: int | None
    """Hash of the block before the first one, or None if the first block starts a sequence."""
    token_ids: list[int] | bytes
    """Tokens of all blocks, as a list or packed as `TokenIds`. The value is empty if the engine reports only hashes."""
    block_size: int
    """Tokens per block, or 0 if `token_ids` is empty."""
    tier: Tier = Tier.GPU
    adapter: str | None = None
    """Name of the LoRA adapter, or None for the base model."""
    salt: str | None = None
    """Cache salt of the blocks. The engine sends it only with the first block of a sequence."""
    extras: list[bytes | None] | None = None
    """Content of each block in addition to tokens, such as images and embeddings. Equal content has equal bytes."""


class Removed(msgspec.Struct, frozen=True, gc=False):
    """Event: the engine removed one copy of each listed block from *tier*."""

    hashes: list[int]
    tier: Tier = Tier.GPU


class Cleared(msgspec.Struct, frozen=True, gc=False):
    """Event: the engine cleared all tiers of the worker except the shared one."""


Event = Stored | Removed | Cleared
