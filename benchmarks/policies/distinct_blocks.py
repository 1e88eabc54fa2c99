"""Blocks of many prompts, by worker, each counted once however many prompts share it."""

from collections import Counter
from collections.abc import Sequence

from benchmarks.policies.holdings import Holdings


class DistinctBlocks:
    """The blocks of the prompts that were added and not yet discarded. All calls are O(blocks)."""

    def __init__(self, workers: int) -> None:
        self._holdings = Holdings(workers)
        self._prompts: list[Counter[int]] = [Counter() for _ in range(workers)]

    def add(self, worker: int, blocks: Sequence[int]) -> None:
        """Count the *blocks* of one more prompt of *worker*."""
        self._prompts[worker].update(blocks)
        self._holdings.add(worker, blocks)

    def discard(self, worker: int, blocks: Sequence[int]) -> None:
        """Forget one prompt of *worker* that was added with these *blocks*."""
        prompts = self._prompts[worker]
        prompts.subtract(blocks)
        gone = [block for block in blocks if not prompts[block]]
        for block in gone:
            del prompts[block]
        self._holdings.discard(worker, gone)

    def count(self, worker: int) -> int:
        return len(self._prompts[worker])

    def leading(self, blocks: Sequence[int]) -> list[int]:
        """Return how many of *blocks* are counted at each worker from the front on."""
        return self._holdings.leading(blocks)
