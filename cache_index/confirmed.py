"""Index that combines the blocks reported by engines with predicted blocks for requests that are not reported yet.

1. Reports and predictions are kept apart. A reported block is valid until the engine reports its removal, and a
   prediction until it expires.
2. A match returns the longer of both for each worker, because a prompt that was just sent will soon be cached.
"""

from collections import deque
from collections.abc import Mapping

from cache_index.counts import Counts
from cache_index.event import Event, Tier
from cache_index.hit import Hit
from cache_index.index import WorkerId
from cache_index.prefix import Prefix
from cache_index.radix import RadixTree
from cache_index.residency import Residency

CHECKPOINT_S = 0.1
"""Interval in seconds within which all predictions get the same expiry time."""
EXPIRED_AT_ONCE = 256
"""Maximum number of runs of blocks to remove in one call, which takes 0.2 ms. After a pause without requests, several
thousand can be due.
"""


class Confirmed:
    """Index of reported and predicted blocks. A prediction expires after *lifetime_s* seconds, which must exceed the
    delay of events.
    """

    def __init__(self, residency: Residency, *, lifetime_s: float = 5.0, max_bytes: int = 64 * 2**20) -> None:
        self._residency = residency
        self._lifetime_s = lifetime_s
        self._predictions = RadixTree(max_bytes=max_bytes, default_capacity=2**60)
        self._checkpoints: deque[tuple[float, int]] = deque()
        """Pairs of a time and the number of predictions made until then, oldest first."""
        self._expired = 0
        """Number of predictions that have expired but are possibly not removed yet, or 0 if all of them are."""

    @property
    def size_bytes(self) -> int:
        return self._residency.size_bytes + self._predictions.size_bytes

    @property
    def counts(self) -> Counts:
        """Counters of anomalies in the events of engines."""
        return self._residency.counts

    def join(self, worker: WorkerId, *, model: str) -> None:
        """Record that *worker* serves *model* and can use the model's blocks in a shared tier."""
        self._residency.join(worker, model=model)

    def apply(self, worker: WorkerId, event: Event, *, model: str) -> None:
        """Apply a cache event from the engine of *worker*. *model* has the form of the argument of `scope_of`. O(blocks
        of *event*).
        """
        self._residency.apply(worker, event, model=model)

    def predict(self, worker: WorkerId, prefix: Prefix, now: float) -> int:
        """Predict that *worker* will hold all blocks of *prefix*. Return the number of blocks that were not predicted
        before.
        """
        gained = self._predictions.record(worker, prefix)
        if self._checkpoints and now - self._checkpoints[-1][0] < CHECKPOINT_S:
            now, _ = self._checkpoints.pop()
        self._checkpoints.append((now, self._predictions.uses))
        return gained

    def retract(self, worker: WorkerId, prefix: Prefix, keep: int) -> None:
        """Remove the prediction of a failed request, starting at block *keep* of its prompt. Blocks that other
        predictions extend are kept.
        """
        self._predictions.trim(worker, prefix, keep)

    def match(self, prefix: Prefix, now: float) -> Mapping[WorkerId, Hit]:
        """Return the number of leading blocks of *prefix* that each worker holds or will soon hold. Workers without
        such blocks are left out.
        """
        self._expire(now)
        hits = dict(self._residency.match(prefix))
        for worker, blocks in self._predictions.match(prefix, since=self._expired).items():
            reported = hits.get(worker)
            if reported is None or reported.blocks < blocks:
                hits[worker] = Hit(blocks)
        return hits

    def match_in(self, prefix: Prefix, tier: Tier) -> Mapping[WorkerId, int]:
        """Return the number of leading blocks of *prefix* that each worker's engine reports in *tier* alone."""
        return self._residency.match_in(prefix, tier)

    def held(self, worker: WorkerId) -> int:
        """Return the number of blocks that *worker*'s engine has reported in all tiers except the shared one."""
        return self._residency.held(worker)

    def held_in(self, worker: WorkerId, tier: Tier) -> int:
        """Return the number of blocks that *worker*'s engine reports in *tier*."""
        return self._residency.held_in(worker, tier)

    def capacity_of(self, worker: WorkerId, tier: Tier) -> int | None:
        """Return the number of blocks that a slower tier of *worker* can hold, or None until it has removed one."""
        return self._residency.capacity_of(worker, tier)

    def engine_hash(self, worker: WorkerId, prefix: Prefix) -> int | None:
        """Return the hash that *worker*'s engine uses for the first block of *prefix*, or None if it is not on the GPU.

        O(blocks of the worker): not for the path of requests.
        """
        return self._residency.engine_hash(worker, prefix)

    def block_size(self, worker: WorkerId) -> int | None:
        """Return the tokens per block of *worker*'s cache, or None if its engine has not reported a block yet."""
        return self._residency.block_size(worker)

    def drop(self, worker: WorkerId) -> None:
        """Remove all blocks of *worker* from the index, because the worker was removed or its engine restarted."""
        self._residency.drop(worker)
        self._predictions.drop(worker)

    def _expire(self, now: float) -> None:
        """Remove some of the predictions that have expired. The others no longer match."""
        while self._checkpoints and self._checkpoints[0][0] + self._lifetime_s <= now:
            _, self._expired = self._checkpoints.popleft()
        if self._expired and self._predictions.evict_unused_since(self._expired, max_runs=EXPIRED_AT_ONCE):
            self._expired = 0
