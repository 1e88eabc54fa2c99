"""Who holds which blocks of a run, in one tier."""

from cache_index.slots import bits


class Holdings:
    """For each worker the blocks of the run that it holds, as a set of bits: block *i* is bit *i*.

    A worker that holds all of the run, and most do, takes one bit in ``full`` and nothing else. *whole* is the set of
    all blocks of the run; it is told in each call, because only the run knows.
    """

    __slots__ = ("full", "partial")

    def __init__(self) -> None:
        self.full = 0
        """Bits of the workers that hold all of the run."""
        self.partial: dict[int, int] | None = None
        """By the place of its bit, what a worker holds that holds some of the run."""

    def __bool__(self) -> bool:
        return bool(self.full or self.partial)

    def of(self, slot: int, whole: int) -> int:
        """Blocks that the worker holds."""
        if self.full >> slot & 1:
            return whole
        return self.partial.get(slot, 0) if self.partial else 0

    def hold(self, slot: int, blocks: int, whole: int) -> int:
        """The worker also holds *blocks*; answers which of them it held before."""
        held = self.of(slot, whole)
        self._set(slot, held | blocks, whole)
        return held & blocks

    def release(self, slot: int, blocks: int, whole: int) -> None:
        """The worker does not hold *blocks*."""
        self._set(slot, self.of(slot, whole) & ~blocks, whole)

    def _set(self, slot: int, blocks: int, whole: int) -> None:
        if blocks and blocks != whole:
            self.full &= ~(1 << slot)
            if self.partial is None:
                self.partial = {}
            self.partial[slot] = blocks
            return
        if blocks:
            self.full |= 1 << slot
        else:
            self.full &= ~(1 << slot)
        if self.partial and self.partial.pop(slot, None) and not self.partial:
            self.partial = None

    def workers(self) -> int:
        """Bits of the workers that hold anything."""
        holders = self.full
        for slot in self.partial or ():
            holders |= 1 << slot
        return holders

    def lengthened(self, whole: int) -> None:
        """The run has more blocks than *whole*, what it was; nobody holds those."""
        full, self.full = self.full, 0
        for slot in bits(full):
            self._set(slot, whole, -1)

    def split(self, cut: int, whole: int) -> "Holdings":
        """The run ends after *cut* blocks; answers the holdings of the rest of it. O(workers)."""
        lower = Holdings()
        lower.full = self.full
        partial, self.partial = self.partial, None
        kept = (1 << cut) - 1
        for slot, blocks in partial.items() if partial else ():
            self._set(slot, blocks & kept, kept)
            lower._set(slot, blocks >> cut, whole >> cut)
        return lower

    def check(self, whole: int) -> None:
        """Derive every invariant anew; raises AssertionError. O(workers)."""
        assert self.partial is None or self.partial
        for slot, blocks in (self.partial or {}).items():
            assert 0 < blocks < whole
            assert not self.full >> slot & 1
