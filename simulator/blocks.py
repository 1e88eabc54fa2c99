"""The paged KV cache of one engine: physical blocks, prefix cache, and vLLM's order of eviction.

Three rules bind here (vLLM, v1/core/block_pool.py):

1. A block with references is pinned. A block without any is free, and may still be cached: a hit takes it out of the
   free list.
2. Free blocks are reused from the head of the list. Blocks that never got a hash go to the head, hashed ones to the
   tail, a finished sequence's last block first: so the tail of a sequence is evicted before its head.
3. Equal content computed twice is cached twice: the sink hears of two stored blocks, and later of two removed ones.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

BlockHash: TypeAlias = Hashable
"""The value of a block chained with all before it: an id of a trace, or a hash of token ids."""


@dataclass(frozen=True, slots=True)
class BlockScope:
    """Attributes that blocks must have in common to be shared, beside their tokens. Their hashes include them."""

    adapter: str | None = None
    """LoRA adapter by name."""
    salt: str | None = None
    """Cache salt."""


PLAIN = BlockScope()


class BlockSink(Protocol):
    """Receiver of every change of the prefix cache, in order; the seam for KV events."""

    def stored(
        self,
        hashes: Sequence[BlockHash],
        parent: BlockHash | None,
        token_ids: Sequence[int],
        scope: BlockScope = PLAIN,
    ) -> None:
        """*hashes* follow *parent* (``None``: they begin a sequence); *token_ids* of all of them, empty if unknown."""
        ...

    def removed(self, hashes: Sequence[BlockHash]) -> None: ...

    def cleared(self) -> None: ...


class NoSink:
    """Hears nothing."""

    def stored(
        self,
        hashes: Sequence[BlockHash],
        parent: BlockHash | None,
        token_ids: Sequence[int],
        scope: BlockScope = PLAIN,
    ) -> None:
        pass

    def removed(self, hashes: Sequence[BlockHash]) -> None:
        pass

    def cleared(self) -> None:
        pass


class BothSinks:
    """Two that hear the same, in the order given."""

    def __init__(self, first: BlockSink, second: BlockSink) -> None:
        self._sinks = (first, second)

    def stored(
        self,
        hashes: Sequence[BlockHash],
        parent: BlockHash | None,
        token_ids: Sequence[int],
        scope: BlockScope = PLAIN,
    ) -> None:
        for sink in self._sinks:
            sink.stored(hashes, parent, token_ids, scope)

    def removed(self, hashes: Sequence[BlockHash]) -> None:
        for sink in self._sinks:
            sink.removed(hashes)

    def cleared(self) -> None:
        for sink in self._sinks:
            sink.cleared()


class BlockPool:
    """*capacity* blocks of *block_size* tokens each. Every operation is O(blocks it is given)."""

    def __init__(self, capacity: int, block_size: int = 16, *, sink: BlockSink | None = None) -> None:
        if capacity < 1 or block_size < 1:
            raise ValueError(f"capacity and block_size must be at least 1, got {capacity} and {block_size}")
        self.capacity = capacity
        self.block_size = block_size
        self._sink: BlockSink = sink if sink is not None else NoSink()
        self._references = [0] * capacity
        self._hashes: list[BlockHash | None] = [None] * capacity
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(capacity))
        self._cached: dict[BlockHash, list[int]] = {}

    def __repr__(self) -> str:
        return f"<BlockPool {self.capacity - self.free} of {self.capacity} in use, {len(self._cached)} hashes cached>"

    @property
    def free(self) -> int:
        """Blocks without references, cached or not."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of the blocks that are pinned, 0 to 1."""
        return 1 - len(self._free) / self.capacity

    def blocks_for(self, tokens: int) -> int:
        """Blocks that *tokens* tokens take, the last one perhaps partly."""
        return -(-tokens // self.block_size)

    def match(self, hashes: Sequence[BlockHash], limit: int) -> list[int]:
        """The cached blocks of the first *limit* hashes, up to the first that is missing. Changes nothing."""
        hits: list[int] = []
        for block_hash in hashes[:limit]:
            copies = self._cached.get(block_hash)
            if copies is None:
                break
            hits.append(copies[0])
        return hits

    def take(self, hits: Sequence[int], fresh: int) -> list[int] | None:
        """Pin *hits* and *fresh* more blocks, in this order; ``None``, and nothing changed, when there is no room.

        Fresh blocks come from the head of the free list; what they held is evicted.
        """
        references = self._references
        unpinned = sum(1 for block in hits if not references[block])
        if fresh > len(self._free) - unpinned:
            return None
        for block in hits:
            if not references[block]:
                del self._free[block]
            references[block] += 1
        taken = list(hits)
        for _ in range(fresh):
            block, _nothing = self._free.popitem(last=False)
            if self._hashes[block] is not None:
                self._evict(block)
            references[block] = 1
            taken.append(block)
        return taken

    def store(
        self,
        blocks: Sequence[int],
        hashes: Sequence[BlockHash],
        *,
        parent: BlockHash | None = None,
        token_ids: Sequence[int] = (),
        scope: BlockScope = PLAIN,
    ) -> None:
        """Make *blocks*, pinned and full, findable under *hashes*, which follow *parent*."""
        if not hashes:
            return
        for block, block_hash in zip(blocks, hashes, strict=True):
            self._hashes[block] = block_hash
            self._cached.setdefault(block_hash, []).append(block)
        self._sink.stored(hashes, parent, token_ids, scope)

    def release(self, blocks: Sequence[int]) -> None:
        """Give back *blocks*, in the order of their sequence; those without other references become free."""
        for block in reversed(blocks):
            self._references[block] -= 1
            if self._references[block]:
                continue
            self._free[block] = None
            if self._hashes[block] is None:
                self._free.move_to_end(block, last=False)

    def clear(self) -> None:
        """Forget every cached prefix. Pinned blocks stay with their requests, but no other request finds them."""
        self._cached.clear()
        self._hashes = [None] * self.capacity
        self._sink.cleared()

    def _evict(self, block: int) -> None:
        block_hash = self._hashes[block]
        self._hashes[block] = None
        copies = self._cached[block_hash]
        copies.remove(block)
        if not copies:
            del self._cached[block_hash]
        self._sink.removed((block_hash,))
