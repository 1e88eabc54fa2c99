"""The seam behind which an index of cached prefixes lives."""

from collections.abc import Mapping
from typing import NewType, Protocol

from cache_index.prefix import Prefix

WorkerId = NewType("WorkerId", str)


class CacheIndex(Protocol):
    """What each worker's KV cache is believed to hold.

    A worker unknown to the index holds nothing; recording it makes it known.
    """

    def match(self, prefix: Prefix) -> Mapping[WorkerId, int]:
        """Leading blocks of *prefix* that each worker holds; workers without any are absent.

        A hole ends the match: a block is of use only if all before it are there.
        """
        ...

    def record(self, worker: WorkerId, prefix: Prefix, *, output_blocks: int | None = None) -> int:
        """*worker* holds all of *prefix*, used most recently; answers how many blocks it did not hold before.

        *output_blocks*: the answer to it has ended, with so many blocks of generated text, whose content is unknown:
        they only take room. None: it is asked for.
        """
        ...

    def trim(self, worker: WorkerId, prefix: Prefix, keep: int) -> None:
        """Take back what a failed request was to bring: what nothing extends of *prefix* from block *keep* on."""
        ...

    def resize(self, worker: WorkerId, capacity: int) -> None:
        """The worker's cache has room for *capacity* blocks; what exceeds it is evicted, least recently used first."""
        ...

    def drop(self, worker: WorkerId) -> None:
        """Forget the worker. O(its runs)."""
        ...

    def held(self, worker: WorkerId) -> int:
        """Blocks that the worker is believed to hold, output blocks included."""
        ...

    def room(self, worker: WorkerId) -> int:
        """Blocks more that the worker can hold before it evicts any."""
        ...

    def oldest_chance(self, worker: WorkerId) -> float:
        """How likely that is asked for again which the worker would evict first, 0 to 1; 0 if it holds nothing. O(1).

        Learnt from what all workers were asked for again, and after how long.
        """
        ...

    @property
    def size_bytes(self) -> int:
        """Memory in use, estimated from the sizes of the objects."""
        ...
