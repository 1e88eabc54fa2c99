"""Workers as bits: a set of workers is an int, and sets are joined and compared at once."""

from collections.abc import Iterator

from cache_index.index import WorkerId


def bits(mask: int) -> Iterator[int]:
    """The places of the set bits of *mask*, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Slots:
    """Gives each worker a bit, the lowest that is free."""

    def __init__(self) -> None:
        self._workers: list[WorkerId] = []
        self._free: list[int] = []

    def take(self, worker: WorkerId) -> int:
        """The place of the bit that is *worker*'s from here on; it must have none."""
        slot = self._free.pop() if self._free else len(self._workers)
        self._workers[slot : slot + 1] = [worker]
        return slot

    def give_back(self, slot: int) -> None:
        self._free.append(slot)

    def worker(self, slot: int) -> WorkerId:
        return self._workers[slot]

    def workers(self, mask: int) -> list[WorkerId]:
        """Those whose bits are set in *mask*. O(set bits)."""
        workers = self._workers
        return [workers[slot] for slot in bits(mask)]
