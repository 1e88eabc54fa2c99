"""Map workers to bits, so that an int can represent a set of workers."""

from collections.abc import Iterator

from cache_index.index import WorkerId


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the set bits in *mask* in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class WorkerSlots:
    """Mapping between workers and their bit numbers."""

    def __init__(self) -> None:
        self._workers: list[WorkerId] = []
        self._free: list[int] = []

    def assign(self, worker: WorkerId) -> int:
        """Assign a free bit to *worker* and return the bit number. The worker must not have a bit yet."""
        slot = self._free.pop() if self._free else len(self._workers)
        self._workers[slot : slot + 1] = [worker]
        return slot

    def give_back(self, slot: int) -> None:
        self._free.append(slot)

    def worker(self, slot: int) -> WorkerId:
        return self._workers[slot]

    def workers(self, mask: int) -> list[WorkerId]:
        """Return the workers whose bits are set in *mask*. O(set bits)."""
        workers = self._workers
        return [workers[slot] for slot in bits(mask)]
