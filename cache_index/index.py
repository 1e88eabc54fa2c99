"""The seam for indexes of cached prefixes."""

from collections.abc import Mapping
from typing import NewType, Protocol

from cache_index.prefix import Prefix

WorkerId = NewType("WorkerId", str)


class CacheIndex(Protocol):
    """Predicted contents of each worker's KV cache.

    An unknown worker holds nothing; `record` makes it known.
    """

    def match(self, prefix: Prefix) -> Mapping[WorkerId, int]:
        """Return the leading blocks of *prefix* that each worker holds; workers without any are absent.

        A hole ends the match: a block is useful only if all before it are there.
        """
        ...

    def record(self, worker: WorkerId, prefix: Prefix, *, output_blocks: int | None = None) -> int:
        """Record a use of all of *prefix* by *worker*. Returns the number of blocks that it did not hold before.

        *output_blocks*: the use is the end of a request, whose answer fills that many blocks. Their content is unknown,
        so they only take up room. None: the use is the beginning of a request.
        """
        ...

    def trim(self, worker: WorkerId, prefix: Prefix, keep: int) -> None:
        """Remove the record of a failed request: blocks of *prefix* from *keep* on that no other prefix extends."""
        ...

    def resize(self, worker: WorkerId, capacity: int) -> None:
        """Set the capacity of the worker's cache in blocks, and evict the least recently used blocks beyond it."""
        ...

    def drop(self, worker: WorkerId) -> None:
        """Forget the worker. O(its runs)."""
        ...

    def held(self, worker: WorkerId) -> int:
        """Return the number of blocks that the worker holds, including output blocks."""
        ...

    def room(self, worker: WorkerId) -> int:
        """Return the number of blocks that the worker can add before it evicts any."""
        ...

    def oldest_chance(self, worker: WorkerId) -> float:
        """Return the chance, 0 to 1, that the worker's next evicted block would be used again; 0 without blocks. O(1).

        It is learned from the times between uses of blocks on all workers.
        """
        ...

    @property
    def size_bytes(self) -> int:
        """Memory in use, estimated from the sizes of the objects."""
        ...
