"""Blocks of a tree node that each worker holds in one tier."""

from cache_index.slots import bits


class Holdings:
    """Bitmask of the blocks that each worker holds. Bit *i* stands for block *i*.

    Most workers hold all blocks of a node, which takes only one bit in ``full``. The argument *whole* of all methods is
    the bitmask of all blocks of the node, which is not stored here.
    """

    __slots__ = ("full", "partial")

    def __init__(self) -> None:
        self.full = 0
        """Bitmask of the workers that hold all blocks."""
        self.partial: dict[int, int] | None = None
        """Bitmasks of held blocks by the worker's bit number, for workers that hold only some of the blocks."""

    def __bool__(self) -> bool:
        return bool(self.full or self.partial)

    def held_by(self, slot: int, whole: int) -> int:
        """Return the bitmask of the blocks that worker *slot* holds."""
        if self.full >> slot & 1:
            return whole
        return self.partial.get(slot, 0) if self.partial else 0

    def hold(self, slot: int, blocks: int, whole: int) -> int:
        """Add the bitmask *blocks* to the blocks that a worker holds. Return those that it already held."""
        held = self.held_by(slot, whole)
        self._set(slot, held | blocks, whole)
        return held & blocks

    def release(self, slot: int, blocks: int, whole: int) -> None:
        """Remove the bitmask *blocks* from the blocks that a worker holds."""
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
        """Return the bitmask of the workers that hold any block."""
        holders = self.full
        for slot in self.partial or ():
            holders |= 1 << slot
        return holders

    def lengthened(self, whole: int) -> None:
        """Update the bitmasks after blocks that no worker holds yet were appended to the node. *whole* is the bitmask
        of the blocks before.
        """
        full, self.full = self.full, 0
        for slot in bits(full):
            self._set(slot, whole, -1)

    def split(self, cut: int, whole: int) -> "Holdings":
        """Split the bitmasks after *cut* blocks. Keep the first part and return the second one. O(workers)."""
        lower = Holdings()
        lower.full = self.full
        partial, self.partial = self.partial, None
        kept = (1 << cut) - 1
        for slot, blocks in partial.items() if partial else ():
            self._set(slot, blocks & kept, kept)
            lower._set(slot, blocks >> cut, whole >> cut)
        return lower

    def check(self, whole: int) -> None:
        """Check all invariants of the bitmasks. Raise AssertionError if one is violated. O(workers)."""
        assert self.partial is None or self.partial
        for slot, blocks in (self.partial or {}).items():
            assert 0 < blocks < whole
            assert not self.full >> slot & 1
