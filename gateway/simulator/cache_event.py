"""What one engine tells of its prefix cache, before anybody has put it into bytes. Data only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gateway.simulator.blocks import PLAIN, BlockScope


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """Blocks that follow each other. Hashes are unsigned, 64 bit."""

    hashes: Sequence[int]
    parent: int | None
    """Of the block before the first; ``None``: a sequence begins."""
    token_ids: Sequence[int]
    """Of all blocks."""
    scope: BlockScope = PLAIN

    def extra_keys(self) -> list[list[str] | None]:
        """Per block, what its hash covers beside its tokens, in vLLM's order: adapter, and salt for the first one."""
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
