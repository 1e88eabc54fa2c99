"""Numbers for prefixes of prompts, so that a recorded request needs no hash and no text.

A step of a prompt is a run of blocks that is numbered as one. Numbers are assigned in order of first appearance, so a
prompt is described by the number of its last known step, and the count of its new steps. The hashes stay in memory:
files contain only the numbers, which cannot be matched to known texts.
"""

from typing import Final

from librt.strings import read_i64_le

from cache_index.native import mypyc_attr
from cache_index.prefix import HASH_BYTES

NO_PARENT: Final = 0
"""Number of no step. Numbers begin with 1."""


@mypyc_attr(acyclic=True)
class Placed:
    """Position of a prompt among the numbered steps."""

    __slots__ = ("first", "new", "parent", "shared")

    def __init__(self, parent: int, shared: int, first: int, new: int) -> None:
        self.parent: Final = parent
        """Number of the last step that was known before, or `NO_PARENT`."""
        self.shared: Final = shared
        """Number of steps that were known before."""
        self.first: Final = first
        """Number of the first new step. The others follow it."""
        self.new: Final = new


class PrefixNumbers:
    """Numbers of steps that were seen recently. At most 2 * *max_steps* are remembered, plus those of one prompt."""

    def __init__(self, max_steps: int = 131_072) -> None:
        self._max_steps = max_steps
        self._recent: dict[int, int] = {}
        self._earlier: dict[int, int] = {}
        self._next = NO_PARENT + 1

    def place(self, hashes: bytes, step_blocks: int) -> Placed:
        """Return the position of the prompt with the block hashes *hashes*, in steps of *step_blocks* blocks.

        An incomplete last step gets no number. O(log(steps) + new steps).
        """
        width = step_blocks * HASH_BYTES
        steps = len(hashes) // width
        known, parent = 0, NO_PARENT
        low, high = 1, steps
        if steps:  # repeated prompts are common, and known as a whole
            number = self._known(hashes, steps, width)
            if number != NO_PARENT:
                known, parent, low = steps, number, steps + 1
            else:
                high = steps - 1
        while low <= high:
            middle = (low + high) // 2
            number = self._known(hashes, middle, width)
            if number == NO_PARENT:
                high = middle - 1
            else:
                known, parent = middle, number
                low = middle + 1
        first = number = self._next
        recent = self._recent
        end = (known + 1) * width
        while end <= steps * width:  # in compiled code, faster than a range with a step
            recent[_hash_before(hashes, end)] = number
            number += 1
            end += width
        self._next = number
        if len(recent) > self._max_steps:
            self._earlier, self._recent = recent, {}
        return Placed(parent, known, first, steps - known)

    def _known(self, hashes: bytes, step: int, width: int) -> int:
        """Return the number of step *step*, or `NO_PARENT` if it is not known."""
        end = step * width
        key = _hash_before(hashes, end)
        number = self._recent.get(key)
        if number is not None:
            return number
        number = self._earlier.get(key)
        if number is None:
            return NO_PARENT
        # All steps of a prefix must be known as long as the last one is: the search relies on it.
        for before in range(end, 0, -width):
            key = _hash_before(hashes, before)
            if key in self._recent:
                break
            moved = self._earlier.get(key)
            if moved is not None:
                self._recent[key] = moved
        return number


def _hash_before(hashes: bytes, end: int) -> int:
    """Return the hash of the block that ends at byte *end* of *hashes*."""
    return read_i64_le(hashes, end - HASH_BYTES)
