"""An engine's reports of its KV cache: blocks stored, blocks removed, everything cleared.

They are the same for all engines; the gateway decodes each wire format. An engine's hash of a block is opaque. It is
valid only for the worker that sent it.
"""

from enum import Enum

import msgspec


class Tier(Enum):
    """The kind of memory in which a worker keeps a block."""

    GPU = "gpu"
    CPU = "cpu"
    DISK = "disk"
    SHARED = "shared"
    """A store outside the worker that every worker can load from."""


class Stored(msgspec.Struct, frozen=True, gc=False):
    """A report of consecutive blocks that were stored; each hash covers its block and all before it."""

    hashes: list[int]
    parent: int | None
    """Hash of the block before the first; None: the first begins a sequence."""
    token_ids: list[int] | bytes
    """Tokens of all blocks, or the same packed as `TokenIds`; empty if the engine names blocks by hash alone."""
    block_size: int
    """Tokens per block; 0 if `token_ids` is empty."""
    tier: Tier = Tier.GPU
    adapter: str | None = None
    """Name of the LoRA adapter."""
    salt: str | None = None
    """Cache salt; sent only with the first block of a sequence."""
    extras: list[bytes | None] | None = None
    """Content of each block besides its tokens (images, embeddings); equal bytes for equal content."""


class Removed(msgspec.Struct, frozen=True, gc=False):
    """A report of blocks of which one copy each was removed from *tier*."""

    hashes: list[int]
    tier: Tier = Tier.GPU


class Cleared(msgspec.Struct, frozen=True, gc=False):
    """A report that all tiers of the worker were emptied, except the shared one."""


Event = Stored | Removed | Cleared
