"""The cache of one worker, by the reports of its engine."""

from collections import deque

from cache_index.block_tree import CPU, DISK, GPU, LATELY, SHARED, BlockTree, Node
from cache_index.counts import Counts
from cache_index.event import Tier
from cache_index.pool import Pool

ENGINE_BYTES = 5000
"""Memory of an engine without blocks. Measured with tracemalloc on CPython 3.11."""
REMEMBERED = 2048
"""Removed blocks that an engine with slower tiers may still refer to."""

_NUMBERS = {Tier.GPU: GPU, Tier.CPU: CPU, Tier.DISK: DISK, Tier.SHARED: SHARED}


class Engine:
    """A pool for each tier, by the engine's own hashes. *slot* is the number of the worker's bit."""

    __slots__ = ("_is_tiered", "_lately", "_removed", "_tree", "bit", "block_sizes", "gpu", "model", "slot", "slower")

    def __init__(self, slot: int, model: str, tree: BlockTree, counts: Counts) -> None:
        self.slot = slot
        self.bit = 1 << slot
        self.model = model
        self.gpu = Pool(tree, GPU, slot, counts)
        self.slower = {tier: Pool(tree, _NUMBERS[tier], slot, counts) for tier in (Tier.CPU, Tier.DISK, Tier.SHARED)}
        self.block_sizes: dict[int, int] = {}
        """Number of reported blocks, by tokens per block."""
        self._tree = tree
        self._is_tiered = False
        """Whether it reported any tier besides the GPU."""
        self._lately = Pool(tree, LATELY, slot, Counts())
        """Removed blocks that later reports may refer to."""
        self._removed: deque[int] = deque()
        """Hashes of removed blocks, oldest first."""

    def pool(self, tier: Tier) -> Pool:
        if tier is Tier.GPU:
            return self.gpu
        self._is_tiered = True
        return self.slower[tier]

    def find(self, engine_hash: int) -> tuple[Node, int] | None:
        """Return node and offset of a block that is held in any tier, or was until recently."""
        place = self.gpu.place(engine_hash)
        if place is None and (self._is_tiered or self._removed):
            places = (pool.place(engine_hash) for pool in (*self.slower.values(), self._lately))
            place = next((found for found in places if found is not None), None)
        return None if place is None else self._tree.find(place)

    def learn_block_size(self, tokens: int, blocks: int) -> None:
        self.block_sizes[tokens] = self.block_sizes.get(tokens, 0) + blocks

    def remove(self, engine_hash: int, tier: Tier) -> bool:
        """Remove one copy of a block from *tier*. Returns whether there was one.

        vLLM reports copies to a slower tier by hash alone, and after the evictions from the GPU in the same step
        (vllm/v1/core/sched/scheduler.py), so the hash must be known for some more time.
        """
        pool = self.pool(tier)
        if self._is_tiered:
            place = pool.place(engine_hash)
            if place is not None:
                self.remember(engine_hash, place)
        return pool.remove(engine_hash)

    def remember(self, engine_hash: int, place: int) -> None:
        """Keep a block's place known for some time, even after its removal. O(log blocks)."""
        found = self._tree.find(place)
        if found is None:
            return
        self._lately.put([engine_hash], [(*found, 1)], copies=True)
        self._removed.append(engine_hash)
        if len(self._removed) > REMEMBERED:
            self._lately.remove(self._removed.popleft())

    def clear(self) -> None:
        """Empty all tiers but the shared one. O(its runs, and a vectorized pass over its blocks)."""
        for pool in (self.gpu, self.slower[Tier.CPU], self.slower[Tier.DISK], self._lately):
            pool.clear()
        self._removed.clear()

    @property
    def pools(self) -> dict[int, Pool]:
        """All pools, by tier."""
        return {GPU: self.gpu, LATELY: self._lately, **{_NUMBERS[tier]: pool for tier, pool in self.slower.items()}}

    def check(self) -> dict[tuple[int, int, int], int]:
        """Return the sets of blocks that it holds, by node, tier and worker; see `BlockTree.check`."""
        return {
            (node, tier, self.slot): held for tier, pool in self.pools.items() for node, held in pool.check().items()
        }
