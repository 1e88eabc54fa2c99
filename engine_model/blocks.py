"""Paged KV cache of one engine: physical blocks, prefix cache, and vLLM's eviction order.

The module follows three rules of vLLM (v1/core/block_pool.py):

1. A block with references is pinned. A block without references is free but may still be cached, and a cache hit
   removes it from the free list.
2. Free blocks are reused from the head of the free list. Blocks without a hash are freed to the head, and blocks with a
   hash are freed to the tail. The last block of a finished sequence is freed first, so the end of a sequence is evicted
   before its beginning.
3. Content that is computed twice is cached twice. The sink is notified of two stored blocks, and later of two removed
   blocks.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from engine_model.host_tier import HostTier, PeerTier

BlockHash: TypeAlias = Hashable
"""Hash of a block chained with all blocks before it, either an id from a trace or a hash of token ids."""


@dataclass(frozen=True, slots=True)
class BlockScope:
    """Attributes other than tokens that must be equal for two requests to share blocks. Block hashes include them."""

    adapter: str | None = None
    """Name of the LoRA adapter, or None for the base model."""
    salt: str | None = None
    """Cache salt of the request, or None if the request has no salt."""


PLAIN = BlockScope()


class BlockSink(Protocol):
    """Receiver of every change of the prefix cache, in order. It is the interface for KV events."""

    def stored(
        self,
        hashes: Sequence[BlockHash],
        parent: BlockHash | None,
        token_ids: Sequence[int],
        scope: BlockScope = PLAIN,
    ) -> None:
        """Handle stored blocks that follow *parent*, or that start a sequence. *token_ids* is empty if unknown."""
        ...

    def removed(self, hashes: Sequence[BlockHash]) -> None: ...

    def cleared(self) -> None: ...


class NoSink:
    """Ignores all changes."""

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
    """Receiver that passes all cache changes on to two receivers, in the given order."""

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


@dataclass(frozen=True, slots=True)
class Pulled:
    """Blocks that an engine pulls from another engine."""

    blocks: int
    ready_at: float
    """Time at which the blocks are on the GPU."""


class BlockPool:
    """KV cache with *capacity* blocks of *block_size* tokens. The cost of each operation is linear in its blocks.

    *host* holds copies of blocks in host memory, or is None if the engine has no host tier.
    """

    def __init__(
        self, capacity: int, block_size: int = 16, *, sink: BlockSink | None = None, host: HostTier | None = None
    ) -> None:
        if capacity < 1 or block_size < 1:
            raise ValueError(f"capacity and block_size must be at least 1, got {capacity} and {block_size}")
        self.capacity = capacity
        self.block_size = block_size
        self.host = host
        self._sink: BlockSink = sink if sink is not None else NoSink()
        self._references = [0] * capacity
        self._hashes: list[BlockHash | None] = [None] * capacity
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(capacity))
        self._cached: dict[BlockHash, list[int]] = {}

    def __repr__(self) -> str:
        return f"<BlockPool {self.capacity - self.free} of {self.capacity} in use, {len(self._cached)} hashes cached>"

    @property
    def free(self) -> int:
        """Number of blocks that no request references, cached or not."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of the blocks that are in use by requests, from 0 to 1."""
        return 1 - len(self._free) / self.capacity

    def blocks_for(self, tokens: int) -> int:
        """Return the number of blocks that *tokens* tokens occupy, including a partly filled last block."""
        return -(-tokens // self.block_size)

    def match(self, hashes: Sequence[BlockHash], limit: int) -> list[int]:
        """Return the leading blocks among the first *limit* hashes that are cached. The lookup changes no state."""
        hits: list[int] = []
        for block_hash in hashes[:limit]:
            copies = self._cached.get(block_hash)
            if copies is None:
                break
            hits.append(copies[0])
        return hits

    def loadable(self, hashes: Sequence[BlockHash], begin: int, limit: int) -> Sequence[BlockHash]:
        """Return the blocks that can be loaded from the host tier: those among the first *limit* hashes that follow the
        first *begin* hashes without a gap.
        """
        if self.host is None or begin >= limit:
            return ()
        wanted = hashes[begin:limit]
        return wanted[: self.host.match(wanted)]

    def begin_load(self, hashes: Sequence[BlockHash], loads: Sequence[BlockHash], now: float) -> float:
        """Begin to load the blocks *loads* for the prompt *hashes*, and mark the prompt's host tier blocks as used at
        *now*.

        Return the time at which the blocks are on the GPU.
        """
        if self.host is None:
            return now
        self.host.touch(hashes)
        return self.host.begin_load(loads, len(loads) * self.block_size, now)

    def pull(self, hashes: Sequence[BlockHash], begin: int, limit: int, peer: PeerTier | None, now: float) -> Pulled:
        """Begin to pull the blocks that follow the first *begin* hashes, among the first *limit* ones, from the host
        tier *peer* of another engine. An engine without a host tier of its own cannot pull.
        """
        if self.host is None or peer is None or begin >= limit:
            return Pulled(0, now)
        blocks = peer.match(hashes[begin:limit])
        if not blocks:
            return Pulled(0, now)
        peer.touch(hashes[: begin + blocks])
        return Pulled(blocks, self.host.begin_pull(blocks * self.block_size, now))

    def end_load(self, loads: Sequence[BlockHash]) -> None:
        """End a load of the blocks *loads*, or give it up."""
        if self.host is not None and loads:
            self.host.end_load(loads)

    def take(self, hits: Sequence[int], fresh: int) -> list[int] | None:
        """Pin the cached blocks *hits* and *fresh* new blocks. Return all of them, or None without any change if there
        is no space.

        New blocks come from the head of the free list, and their cached content is evicted.
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
        """Cache the contents of *blocks*, which are pinned and full, under *hashes*. *parent* is the preceding hash."""
        if not hashes:
            return
        for block, block_hash in zip(blocks, hashes, strict=True):
            self._hashes[block] = block_hash
            self._cached.setdefault(block_hash, []).append(block)
        self._sink.stored(hashes, parent, token_ids, scope)

    def offload(self, hashes: Sequence[BlockHash]) -> None:
        """Copy the cached block sequence *hashes* to the host tier, if the engine has a host tier."""
        if self.host is not None:
            self.host.store(hashes)

    def release(self, blocks: Sequence[int]) -> None:
        """Release *blocks*, given in sequence order. Blocks without other references become free."""
        for block in reversed(blocks):
            self._references[block] -= 1
            if self._references[block]:
                continue
            self._free[block] = None
            if self._hashes[block] is None:
                self._free.move_to_end(block, last=False)

    def clear(self) -> None:
        """Clear the prefix cache and the host tier. Pinned blocks stay with their requests, but no other request can
        find them.
        """
        self._cached.clear()
        self._hashes = [None] * self.capacity
        if self.host is not None:
            self.host.clear()
        self._sink.cleared()

    def _evict(self, block: int) -> None:
        block_hash = self._hashes[block]
        self._hashes[block] = None
        copies = self._cached[block_hash]
        copies.remove(block)
        if not copies:
            del self._cached[block_hash]
        self._sink.removed((block_hash,))
