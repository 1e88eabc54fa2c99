"""Cache contents of one worker, as reported by the events of its engine."""

from collections import deque

from cache_index.block_tree import CPU, DISK, GPU, LATELY, SHARED, BlockTree, Node
from cache_index.counts import Counts
from cache_index.event import Tier
from cache_index.pool import Pool

ENGINE_BYTES = 5000
"""Memory of an `Engine` without blocks, in bytes, measured with tracemalloc on CPython 3.11."""
REMEMBERED = 2048
"""Number of removed blocks to remember per worker, because an engine with slower tiers might still refer to them."""

NUMBERS = {Tier.GPU: GPU, Tier.CPU: CPU, Tier.DISK: DISK, Tier.SHARED: SHARED}
"""Number of each tier in the `BlockTree`."""


class Engine:
    """Cache of one worker: one pool of blocks per tier, addressed by the engine's own hashes. *slot* is the worker's
    bit number.
    """

    __slots__ = (
        "_is_tiered",
        "_lately",
        "_removed",
        "_tree",
        "bit",
        "block_sizes",
        "capacities",
        "gpu",
        "model",
        "slot",
        "slower",
    )

    def __init__(self, slot: int, model: str, tree: BlockTree, counts: Counts) -> None:
        self.slot = slot
        self.bit = 1 << slot
        self.model = model
        self.gpu = Pool(tree, GPU, slot, counts)
        self.slower = {tier: Pool(tree, NUMBERS[tier], slot, counts) for tier in (Tier.CPU, Tier.DISK, Tier.SHARED)}
        self.block_sizes: dict[int, int] = {}
        """Number of blocks reported with each block size. The keys are block sizes in tokens."""
        self.capacities: dict[Tier, int] = {}
        """Largest number of blocks that a slower tier has held when it removed a block."""
        self._tree = tree
        self._is_tiered = False
        """Whether the engine has reported blocks in a tier other than the GPU."""
        self._lately = Pool(tree, LATELY, slot, Counts())
        """Recently removed blocks that later events might refer to."""
        self._removed: deque[int] = deque()
        """Hashes of recently removed blocks, oldest first."""

    def pool(self, tier: Tier) -> Pool:
        if tier is Tier.GPU:
            return self.gpu
        self._is_tiered = True
        return self.slower[tier]

    def find(self, engine_hash: int) -> tuple[Node, int] | None:
        """Return the tree node and offset of a block that any tier holds or that was recently removed, or None."""
        place = self.gpu.place(engine_hash)
        if place is None and (self._is_tiered or self._removed):
            places = (pool.place(engine_hash) for pool in (*self.slower.values(), self._lately))
            place = next((found for found in places if found is not None), None)
        return None if place is None else self._tree.find(place)

    def learn_block_size(self, tokens: int, blocks: int) -> None:
        self.block_sizes[tokens] = self.block_sizes.get(tokens, 0) + blocks

    def remove(self, engine_hash: int, tier: Tier) -> bool:
        """Remove one copy of a block from *tier*. Return whether *tier* had a copy.

        The block's hash stays known for a while. vLLM reports a copy in a slower tier by its hash only, and after the
        evictions from the GPU in the same step (vllm/v1/core/sched/scheduler.py).
        """
        pool = self.pool(tier)
        if self._is_tiered:
            place = pool.place(engine_hash)
            if place is not None:
                self.remember(engine_hash, place)
                if pool is not self.gpu:
                    self.capacities[tier] = max(self.capacities.get(tier, 0), len(pool))
        return pool.remove(engine_hash)

    def remember(self, engine_hash: int, place: int) -> None:
        """Remember the place of a removed block in the tree for a while. O(log blocks)."""
        found = self._tree.find(place)
        if found is None:
            return
        self._lately.put([engine_hash], [(*found, 1)], copies=True)
        self._removed.append(engine_hash)
        if len(self._removed) > REMEMBERED:
            self._lately.remove(self._removed.popleft())

    def clear(self) -> None:
        """Remove all blocks from all tiers except the shared one. O(runs of the worker), plus a vectorized pass over
        its blocks.
        """
        for pool in (self.gpu, self.slower[Tier.CPU], self.slower[Tier.DISK], self._lately):
            pool.clear()
        self._removed.clear()

    @property
    def pools(self) -> dict[int, Pool]:
        """Pools of all tiers, by tier number."""
        return {GPU: self.gpu, LATELY: self._lately, **{NUMBERS[tier]: pool for tier, pool in self.slower.items()}}

    def check(self) -> dict[tuple[int, int, int], int]:
        """Return bitmasks of held blocks by node number, tier and worker slot, as `BlockTree.check` expects them."""
        return {
            (node, tier, self.slot): held for tier, pool in self.pools.items() for node, held in pool.check().items()
        }
