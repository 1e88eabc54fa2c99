"""What an engine says of its KV cache: blocks stored, blocks removed, everything cleared.

The same for all engines; how each writes it on the wire is the gateway's business. An engine's hash of a block is
opaque: it means something for the worker that sent it and for nobody else.
"""

from enum import Enum

import msgspec


class Tier(Enum):
    """Where a worker keeps a block."""

    GPU = "gpu"
    CPU = "cpu"
    DISK = "disk"
    SHARED = "shared"
    """Out of the worker's own memory, in a store that every worker can load from."""


class Stored(msgspec.Struct, frozen=True, gc=False):
    """Consecutive blocks were stored; each hash covers its block and all before it."""

    hashes: list[int]
    parent: int | None
    """Hash of the block before the first; None: the first begins a sequence."""
    token_ids: list[int] | bytes
    """Of all blocks, one after the other, or the same packed as `TokenIds`; empty where the engine names blocks by
    hash alone."""
    block_size: int
    """Tokens per block; 0 where `token_ids` is empty."""
    tier: Tier = Tier.GPU
    adapter: str | None = None
    """LoRA adapter by name."""
    salt: str | None = None
    """Cache salt; told with the first block of a sequence only."""
    extras: list[bytes | None] | None = None
    """Per block, what it holds beside its tokens (images, embeddings), as bytes that equal content shares."""


class Removed(msgspec.Struct, frozen=True, gc=False):
    """Each of these blocks has one copy less in *tier*."""

    hashes: list[int]
    tier: Tier = Tier.GPU


class Cleared(msgspec.Struct, frozen=True, gc=False):
    """The worker holds nothing any more, in no tier of its own."""


Event = Stored | Removed | Cleared
