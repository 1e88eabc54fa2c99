"""The blocks of a run that each worker holds, in one tier."""

from cache_index.slots import bits


class Holdings:
    """Sets of blocks by worker. Block *i* is bit *i*.

    A worker that holds all of the run, and most do, takes one bit in ``full`` and nothing else. *whole* is the set of
    all blocks of the run; each call passes it, because only the run knows it.
    """

    __slots__ = ("full", "partial")

    def __init__(self) -> None:
        self.full = 0
        """Bits of the workers that hold all of the run."""
        self.partial: dict[int, int] | None = None
        """Blocks of each worker that holds only some of the run, by the number of its bit."""

    def __bool__(self) -> bool:
        return bool(self.full or self.partial)

    def held_by(self, slot: int, whole: int) -> int:
        """Return the blocks that the worker holds."""
        if self.full >> slot & 1:
            return whole
        return self.partial.get(slot, 0) if self.partial else 0

    def hold(self, slot: int, blocks: int, whole: int) -> int:
        """Add *blocks* to those of the worker. Returns those that it held before."""
        held = self.held_by(slot, whole)
        self._set(slot, held | blocks, whole)
        return held & blocks

    def release(self, slot: int, blocks: int, whole: int) -> None:
        """Remove *blocks* from the worker."""
        self._set(slot, self.held_by(slot, whole) & ~blocks, whole)

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
        """Return the bits of the workers that hold any block."""
        holders = self.full
        for slot in self.partial or ():
            holders |= 1 << slot
        return holders

    def lengthened(self, whole: int) -> None:
        """Adapt to a run that was longer by blocks that no worker holds. *whole* is its former set of blocks."""
        full, self.full = self.full, 0
        for slot in bits(full):
            self._set(slot, whole, -1)

    def split(self, cut: int, whole: int) -> "Holdings":
        """Cut the run after *cut* blocks and return the holdings of the rest. O(workers)."""
        lower = Holdings()
        lower.full = self.full
        partial, self.partial = self.partial, None
        kept = (1 << cut) - 1
        for slot, blocks in partial.items() if partial else ():
            self._set(slot, blocks & kept, kept)
            lower._set(slot, blocks >> cut, whole >> cut)
        return lower

    def check(self, whole: int) -> None:
        """Derive every invariant from scratch. Raises ``AssertionError``. O(workers)."""
        assert self.partial is None or self.partial
        for slot, blocks in (self.partial or {}).items():
            assert 0 < blocks < whole
            assert not self.full >> slot & 1
