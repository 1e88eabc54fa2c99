"""Workers that hold blocks."""

from collections.abc import Sequence


class Holdings:
    """Workers by the blocks that they hold. A worker's set need not hold the blocks before a block."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._holders: dict[int, int] = {}  # a bit for each worker

    def add(self, worker: int, blocks: Sequence[int]) -> None:
        holders, bit = self._holders, 1 << worker
        for block in blocks:
            holders[block] = holders.get(block, 0) | bit

    def discard(self, worker: int, blocks: Sequence[int]) -> None:
        holders, others = self._holders, ~(1 << worker)
        for block in blocks:
            left = holders.get(block, 0) & others
            if left:
                holders[block] = left
            else:
                holders.pop(block, None)

    def leading(self, blocks: Sequence[int]) -> list[int]:
        """Return how many of *blocks* each worker holds from the front on; a hole ends it. O(blocks + workers)."""
        holders = self._holders
        hits = [0] * self._workers
        alive = (1 << self._workers) - 1
        for depth, block in enumerate(blocks):
            here = holders.get(block, 0)
            lost = alive & ~here
            if lost:
                alive &= here
                self._note(hits, lost, depth)
                if not alive:
                    return hits
        self._note(hits, alive, len(blocks))
        return hits

    def _note(self, hits: list[int], workers: int, depth: int) -> None:
        while workers:
            lowest = workers & -workers
            hits[lowest.bit_length() - 1] = depth
            workers ^= lowest
