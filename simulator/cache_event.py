"""Changes of one engine's prefix cache, before they are encoded. Data only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from simulator.blocks import PLAIN, BlockScope


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """Blocks that follow each other. Hashes are unsigned, 64 bit."""

    hashes: Sequence[int]
    parent: int | None
    """Hash of the block before the first; ``None``: a sequence begins."""
    token_ids: Sequence[int]
    """Tokens of all blocks."""
    scope: BlockScope = PLAIN

    def extra_keys(self) -> list[list[str] | None]:
        """Return, per block, what its hash covers beside its tokens, in vLLM's order: adapter, salt of the first."""
        adapter = [] if self.scope.adapter is None else [self.scope.adapter]
        salt = [] if self.scope.salt is None or self.parent is not None else [self.scope.salt]
        return [[*adapter, *salt] or None, *[list(adapter) or None for _ in self.hashes[1:]]]


@dataclass(frozen=True, slots=True)
class BlocksRemoved:
    hashes: Sequence[int]


@dataclass(frozen=True, slots=True)
class CacheCleared:
    pass


CacheEvent: TypeAlias = BlocksStored | BlocksRemoved | CacheCleared
