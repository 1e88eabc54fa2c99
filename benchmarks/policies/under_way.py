"""The blocks of requests under way, beside any other index."""

from collections.abc import Sequence

from benchmarks.policies.distinct_blocks import DistinctBlocks
from benchmarks.policies.index import Index
from replay.policy import Ask


class UnderWay:
    """An `Index` that answers like *index*, and knows the blocks that the prompts under way have in use."""

    def __init__(self, workers: int, index: Index) -> None:
        self._index = index
        self._in_use = DistinctBlocks(workers)

    def blocks_with(self, ask: Ask) -> list[int]:
        """Return the blocks that each worker has in use if *ask* is sent there, each counted once."""
        shared = self._in_use.leading(ask.blocks)
        return [self._in_use.count(worker) + len(ask.blocks) - hit for worker, hit in enumerate(shared)]

    def hits(self, ask: Ask) -> list[int]:
        return self._index.hits(ask)

    def sent(self, worker: int, ask: Ask) -> None:
        self._in_use.add(worker, ask.blocks)
        self._index.sent(worker, ask)

    def first_token(self, worker: int, ask: Ask) -> None:
        self._index.first_token(worker, ask)

    def finished(self, worker: int, ask: Ask) -> None:
        self._in_use.discard(worker, ask.blocks)
        self._index.finished(worker, ask)

    def stored(self, worker: int, blocks: Sequence[int]) -> None:
        self._index.stored(worker, blocks)

    def removed(self, worker: int, blocks: Sequence[int]) -> None:
        self._index.removed(worker, blocks)
