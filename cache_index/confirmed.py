"""What engines tell of their caches, and beside it what was sent to them and not told of yet.

1. The two are kept apart. An engine's word stands until the engine takes it back; a prediction ends by itself.
2. For each worker the longer of both counts: what it was sent a moment ago it will have in a moment.
"""

from collections import deque
from collections.abc import Mapping

from cache_index.counts import Counts
from cache_index.event import Event
from cache_index.hit import Hit
from cache_index.index import WorkerId
from cache_index.prefix import Prefix
from cache_index.radix import RadixTree
from cache_index.residency import Residency

MARK_S = 0.1
"""Predictions made within this time end together."""


class Confirmed:
    """*lifetime_s* is how long a prediction counts without being made again: longer than events are late."""

    def __init__(self, residency: Residency, *, lifetime_s: float = 5.0, max_bytes: int = 64 * 2**20) -> None:
        self._residency = residency
        self._lifetime_s = lifetime_s
        self._predictions = RadixTree(max_bytes=max_bytes, default_capacity=2**60)
        self._marks: deque[tuple[float, int]] = deque()
        """When the predictions up to a number of use were last made, oldest first."""

    @property
    def size_bytes(self) -> int:
        return self._residency.size_bytes + self._predictions.size_bytes

    @property
    def counts(self) -> Counts:
        """What was odd in what engines told."""
        return self._residency.counts

    def join(self, worker: WorkerId, *, model: str) -> None:
        """*worker* serves *model*, so it can use what others of that model put into a shared tier."""
        self._residency.join(worker, model=model)

    def apply(self, worker: WorkerId, event: Event, *, model: str) -> None:
        """Take in what *worker*'s engine tells. O(blocks of *event*). *model* is as in `scope_of`."""
        self._residency.apply(worker, event, model=model)

    def predict(self, worker: WorkerId, prefix: Prefix, now: float) -> int:
        """*worker* will soon hold all of *prefix*; answers how many blocks of it were not predicted before."""
        gained = self._predictions.record(worker, prefix)
        if self._marks and now - self._marks[-1][0] < MARK_S:
            now, _ = self._marks.pop()
        self._marks.append((now, self._predictions.uses))
        return gained

    def retract(self, worker: WorkerId, prefix: Prefix, keep: int) -> None:
        """The request came to nothing: what nothing else extends of its prediction ends, from block *keep* on."""
        self._predictions.trim(worker, prefix, keep)

    def match(self, prefix: Prefix, now: float) -> Mapping[WorkerId, Hit]:
        """Leading blocks of *prefix* that each worker holds, or will soon; workers without any are absent."""
        self._expire(now)
        hits = dict(self._residency.match(prefix))
        for worker, blocks in self._predictions.match(prefix).items():
            told = hits.get(worker)
            if told is None or told.blocks < blocks:
                hits[worker] = Hit(blocks)
        return hits

    def held(self, worker: WorkerId) -> int:
        """Blocks that *worker*'s engine says it holds, in whichever tier."""
        return self._residency.held(worker)

    def block_size(self, worker: WorkerId) -> int | None:
        """Tokens per block of *worker*'s cache; None until its engine has told of a block."""
        return self._residency.block_size(worker)

    def drop(self, worker: WorkerId) -> None:
        """Forget the worker: it left, or its engine begins anew."""
        self._residency.drop(worker)
        self._predictions.drop(worker)

    def _expire(self, now: float) -> None:
        use = 0
        while self._marks and self._marks[0][0] + self._lifetime_s <= now:
            _, use = self._marks.popleft()
        if use:
            self._predictions.evict_unused_since(use)
