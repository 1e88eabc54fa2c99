"""Changes of one engine's prefix cache, as plain data before encoding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from engine_model.blocks import PLAIN, BlockScope


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """Event: the engine stored consecutive blocks. Their hashes are unsigned 64-bit integers."""

    hashes: Sequence[int]
    parent: int | None
    """Hash of the block before the first stored block, or None if the stored blocks start a sequence."""
    token_ids: Sequence[int]
    """Tokens of all stored blocks."""
    scope: BlockScope = PLAIN

    def extra_keys(self) -> list[list[str] | None]:
        """Return the extra hash keys of each block in vLLM's order: the adapter and, only for the first block, the
        cache salt.
        """
        adapter = [] if self.scope.adapter is None else [self.scope.adapter]
        salt = [] if self.scope.salt is None or self.parent is not None else [self.scope.salt]
        return [[*adapter, *salt] or None, *[list(adapter) or None for _ in self.hashes[1:]]]


@dataclass(frozen=True, slots=True)
class BlocksRemoved:
    hashes: Sequence[int]


@dataclass(frozen=True, slots=True)
class BlockOffloaded:
    """Event: the host tier received a copy of a block. vLLM reports only the hash, and one block per event."""

    hash: int


@dataclass(frozen=True, slots=True)
class BlocksDropped:
    """Event: the host tier evicted copies of blocks."""

    hashes: Sequence[int]


@dataclass(frozen=True, slots=True)
class CacheCleared:
    pass


HostEvent: TypeAlias = BlockOffloaded | BlocksDropped
CacheEvent: TypeAlias = BlocksStored | BlocksRemoved | CacheCleared | HostEvent
