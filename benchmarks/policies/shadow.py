"""A model of every worker's cache, of its real size, fed by what was sent and by nothing else."""

from collections import OrderedDict
from collections.abc import Sequence

from benchmarks.policies.holdings import Holdings
from replay.policy import Ask


class Shadow:
    """The blocks that a least-recently-used cache of *capacity* blocks would hold.

    Blocks count as held from the moment of sending on. They were last used when their answer ended, and the tail of a
    prompt goes before its head, as in an engine. Nothing is known of what answers take, nor of what is pinned.
    """

    def __init__(self, workers: int, capacity: int) -> None:
        self._capacity = capacity
        self._held = Holdings(workers)
        self._lru = [OrderedDict[int, None]() for _ in range(workers)]

    def hits(self, ask: Ask) -> list[int]:
        return self._held.leading(ask.blocks)

    def sent(self, worker: int, ask: Ask) -> None:
        self._touch(worker, ask)

    def first_token(self, worker: int, ask: Ask) -> None:
        pass

    def finished(self, worker: int, ask: Ask) -> None:
        self._touch(worker, ask)

    def stored(self, worker: int, blocks: Sequence[int]) -> None:
        pass

    def removed(self, worker: int, blocks: Sequence[int]) -> None:
        pass

    def _touch(self, worker: int, ask: Ask) -> None:
        lru = self._lru[worker]
        for block in reversed(ask.blocks):
            lru[block] = None
            lru.move_to_end(block)
        self._held.add(worker, ask.blocks)
        evicted = [lru.popitem(last=False)[0] for _ in range(len(lru) - self._capacity)]
        self._held.discard(worker, evicted)
