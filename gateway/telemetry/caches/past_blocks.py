"""Memory of the blocks that each worker has computed, to recognize blocks that a worker computes again."""

from typing import TYPE_CHECKING, Final

import numpy as np
from librt.strings import read_i64_le

from cache_index import WorkerId
from cache_index.prefix import HASH_BYTES

if TYPE_CHECKING:  # mypyc makes machine words of these; not needed at run time
    from mypy_extensions import i64

STRIDE: Final = 8
"""One of so many blocks is remembered. A hash covers all blocks before it, so the last one found shows how far a prompt
is known.
"""
SLOTS: Final = 1 << 21
"""Number of slots in each of the two filters, one byte each."""
MAX_SHARE: Final = 0.25
"""Share of used slots at which the older filter is replaced by an empty one."""
MAX_LOOPED_STRIDES: Final = 64
"""Maximum length of a prompt in strides that is looked up in a loop. One numpy call costs as much as dozens of lookups.
"""


class PastBlocks:
    """Two filters with one hash each, which remember about 4 to 8 million blocks in 4 MiB.

    Only a run of leading blocks counts. A slot that another block has set lengthens this run by one stride, with a
    probability of at most `MAX_SHARE` for each filter.
    """

    def __init__(self, slots: int = SLOTS) -> None:
        self._mask = slots - 1
        self._max_used = int(slots * MAX_SHARE)
        self._newer = bytearray(slots)
        self._older = bytearray(slots)
        self._used = 0

    def learn(self, worker: WorkerId, hashes: bytes) -> int:
        """Remember that *worker* has computed the blocks *hashes*. Return how many leading ones it had computed before.

        O(blocks), about 10 microseconds for a prompt of 1,000 blocks.
        """
        strides = len(hashes) // (STRIDE * HASH_BYTES)
        if strides == 0:
            return 0
        if strides > MAX_LOOPED_STRIDES:
            leading = self._learn_long(worker, hashes)
        else:
            leading = self._learn_short(worker, hashes, strides)
        if self._used > self._max_used:
            self._older, self._newer = self._newer, bytearray(self._mask + 1)
            self._used = 0
        return leading * STRIDE

    def _learn_short(self, worker: WorkerId, hashes: bytes, strides: int) -> int:
        """Remember the blocks in a loop. Return the number of leading strides that were known."""
        newer, older = self._newer, self._older
        # Python's hash has a random key in each process, so callers cannot choose slots.
        salt: i64 = hash(worker)
        mask: i64 = self._mask
        at: i64 = (STRIDE - 1) * HASH_BYTES
        leading = 0
        for place in range(strides):
            slot: int = (read_i64_le(hashes, at) ^ salt) & mask
            at += STRIDE * HASH_BYTES
            is_new = not newer[slot]
            if leading == place and (not is_new or older[slot]):
                leading += 1
            if is_new:
                newer[slot] = 1
                self._used += 1
        return leading

    def _learn_long(self, worker: WorkerId, hashes: bytes) -> int:
        """Remember the blocks all at once. Return the number of leading strides that were known."""
        blocks = np.frombuffer(hashes, "<i8")[STRIDE - 1 :: STRIDE]
        slots = (blocks ^ np.int64(hash(worker))) & np.int64(self._mask)
        filters = np.frombuffer(self._newer, np.bool_), np.frombuffer(self._older, np.bool_)
        newer = filters[0][slots]
        known = newer | filters[1][slots]
        filters[0][slots] = True
        self._used += len(newer) - int(newer.sum())
        return len(known) if known.all() else int(known.argmin())
