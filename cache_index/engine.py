"""What one worker's engine told of its cache."""

from collections import deque

from cache_index.block_tree import CPU, DISK, GPU, LATELY, SHARED, BlockTree, Node
from cache_index.counts import Counts
from cache_index.event import Tier
from cache_index.pool import Pool

ENGINE_BYTES = 5000
"""Of one that told of nothing. Measured with tracemalloc on CPython 3.11."""
REMEMBERED = 2048
"""Removed blocks that an engine with slower tiers may still refer to."""

_NUMBERS = {Tier.GPU: GPU, Tier.CPU: CPU, Tier.DISK: DISK, Tier.SHARED: SHARED}


class Engine:
    """A pool for each tier, by the engine's own hashes. *slot* is the place of the worker's bit."""

    __slots__ = ("_is_tiered", "_lately", "_removed", "_tree", "bit", "block_sizes", "gpu", "model", "slot", "slower")

    def __init__(self, slot: int, model: str, tree: BlockTree, counts: Counts) -> None:
        self.slot = slot
        self.bit = 1 << slot
        self.model = model
        self.gpu = Pool(tree, GPU, slot, counts)
        self.slower = {tier: Pool(tree, _NUMBERS[tier], slot, counts) for tier in (Tier.CPU, Tier.DISK, Tier.SHARED)}
        self.block_sizes: dict[int, int] = {}
        """How many blocks it told of, by their tokens."""
        self._tree = tree
        self._is_tiered = False
        """It told of another tier than the GPU."""
        self._lately = Pool(tree, LATELY, slot, Counts())
        """Blocks that are held no more but will be referred to."""
        self._removed: deque[int] = deque()
        """Their hashes, oldest first."""

    def pool(self, tier: Tier) -> Pool:
        if tier is Tier.GPU:
            return self.gpu
        self._is_tiered = True
        return self.slower[tier]

    def find(self, engine_hash: int) -> tuple[Node, int] | None:
        """Node and offset of a block that is held in any tier, or was until lately."""
        place = self.gpu.place(engine_hash)
        if place is None and (self._is_tiered or self._removed):
            places = (pool.place(engine_hash) for pool in (*self.slower.values(), self._lately))
            place = next((one for one in places if one is not None), None)
        return None if place is None else self._tree.find(place)

    def learn_block_size(self, tokens: int, blocks: int) -> None:
        self.block_sizes[tokens] = self.block_sizes.get(tokens, 0) + blocks

    def remove(self, engine_hash: int, tier: Tier) -> bool:
        """One copy of a block is gone from *tier*; False if there was none.

        vLLM tells of what it copied to a slower tier by hash alone, and after what it evicted from the GPU in the same
        step (vllm/v1/core/sched/scheduler.py), so the hash has to be known for some time longer.
        """
        pool = self.pool(tier)
        if self._is_tiered:
            place = pool.place(engine_hash)
            if place is not None:
                self.remember(engine_hash, place)
        return pool.take(engine_hash)

    def remember(self, engine_hash: int, place: int) -> None:
        """Let a block's place be known for some time, whatever becomes of the block. O(log blocks)."""
        found = self._tree.find(place)
        if found is None:
            return
        self._lately.put([engine_hash], [(*found, 1)], copies=True)
        self._removed.append(engine_hash)
        if len(self._removed) > REMEMBERED:
            self._lately.take(self._removed.popleft())

    def clear(self) -> None:
        """Nothing is left in the tiers of its own. O(its runs, and a fast pass over its blocks)."""
        for pool in (self.gpu, self.slower[Tier.CPU], self.slower[Tier.DISK], self._lately):
            pool.clear()
        self._removed.clear()

    @property
    def pools(self) -> dict[int, Pool]:
        """All of them, by tier."""
        return {GPU: self.gpu, LATELY: self._lately, **{_NUMBERS[tier]: pool for tier, pool in self.slower.items()}}

    def check(self) -> dict[tuple[int, int, int], int]:
        """The sets of blocks that it holds, by node, tier and worker; see `BlockTree.check`."""
        return {
            (node, tier, self.slot): held for tier, pool in self.pools.items() for node, held in pool.check().items()
        }
