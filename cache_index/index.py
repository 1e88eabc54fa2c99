"""Interface of cache indexes, which predict the KV cache contents of workers."""

from collections.abc import Mapping
from typing import NewType, Protocol

from cache_index.prefix import Prefix
from cache_index.reuse import Reuse

WorkerId = NewType("WorkerId", str)


class CacheIndex(Protocol):
    """Predicted contents of each worker's KV cache.

    An unknown worker holds no blocks. `record` adds a worker to the index.
    """

    def match(self, prefix: Prefix) -> Mapping[WorkerId, int]:
        """Return the number of leading blocks of *prefix* that each worker holds. Workers without any of these blocks
        are left out.

        A missing block ends the match, because a block is useful only if all blocks before it are present.
        """
        ...

    def record(self, worker: WorkerId, prefix: Prefix, *, output_blocks: int | None = None) -> int:
        """Record that *worker* used all blocks of *prefix*. Return how many blocks the worker did not hold before.

        None for *output_blocks* means the start of a request. A number means the end of a request whose output fills
        this many blocks. Output blocks take up space but match nothing, because their content is unknown.
        """
        ...

    def trim(self, worker: WorkerId, prefix: Prefix, keep: int) -> None:
        """Remove the blocks that a failed request recorded, from block *keep* on, unless other prefixes extend them."""
        ...

    def resize(self, worker: WorkerId, capacity: int) -> None:
        """Set the cache capacity of *worker* in blocks. Excess blocks are evicted, least recently used first."""
        ...

    def drop(self, worker: WorkerId) -> None:
        """Remove *worker* and all its blocks from the index. O(runs of the worker)."""
        ...

    def held(self, worker: WorkerId) -> int:
        """Return the number of blocks that *worker* holds, including blocks of generated tokens."""
        ...

    def capacity(self, worker: WorkerId) -> int:
        """Return the number of blocks that the cache of *worker* can hold."""
        ...

    def room(self, worker: WorkerId) -> int:
        """Return the number of blocks that *worker* can add without evicting others."""
        ...

    def oldest_chance(self, worker: WorkerId) -> float:
        """Return the probability that the block which *worker* evicts next would be used again, or 0 if *worker* holds
        no blocks. O(1).

        The probability is learned from the intervals between uses of blocks on all workers.
        """
        ...

    def oldest_use(self, worker: WorkerId) -> int | None:
        """Return the number of the use in which the block that *worker* evicts next was used last, or None if *worker*
        holds no blocks. O(1).
        """
        ...

    @property
    def reuse(self) -> Reuse:
        """Ages, in uses of the index, at which blocks of all workers were used again."""
        ...

    @property
    def uses(self) -> int:
        """Number of calls of `record` so far."""
        ...

    @property
    def size_bytes(self) -> int:
        """Memory used by the index, in bytes, estimated from object sizes."""
        ...
