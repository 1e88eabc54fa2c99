"""Sorted column of engine hashes and of block places in the tree. `Places` merges new blocks into columns."""

from array import array
from bisect import bisect_left

import numpy as np

from cache_index.chain import U64, Words

ROW_BYTES = 16
NOWHERE = 0
"""Value in the column of places that marks a removed block."""

MAX_ROWS = 1 << 14
"""Maximum number of rows in a column. Merging other rows into a column of this size takes 0.5 ms."""
_MIN_GONE = 1024

Rows = tuple[Words, Words]
"""Sorted block hashes, and the places of these blocks in the tree."""

_NONE = np.empty(0, U64)


class Column:
    """Fixed set of rows of a hash and a place. Places can be removed but not added. *hashes* are sorted, distinct."""

    __slots__ = ("gone", "hashes", "places")

    def __init__(self, hashes: Words = _NONE, places: Words = _NONE) -> None:
        self.hashes = _array(hashes)
        self.places = _array(places)
        self.gone = 0
        """Number of places removed from the column."""

    @classmethod
    def split(cls, rows: Rows) -> list["Column"]:
        """Split *rows* into columns of at most `MAX_ROWS` rows each."""
        hashes, places = rows
        columns = -(-len(hashes) // MAX_ROWS) or 1
        size = -(-len(hashes) // columns) or 1
        return [cls(hashes[at : at + size], places[at : at + size]) for at in range(0, size * columns, size)]

    def find(self, engine_hash: int, begin: int) -> int | None:
        """Return the row of *engine_hash* from row *begin* on, or None if the hash is missing. O(log rows)."""
        at = bisect_left(self.hashes, engine_hash, begin)
        if at < len(self.hashes) and self.hashes[at] == engine_hash and self.places[at] != NOWHERE:
            return at
        return None

    def take_out(self, row: int) -> int:
        """Remove the place in *row* of the column and return the place."""
        place = self.places[row]
        self.places[row] = NOWHERE
        self.gone += 1
        return place

    @property
    def is_sparse(self) -> bool:
        """Whether enough places were removed from the column to make compaction worthwhile."""
        return self.gone > max(_MIN_GONE, len(self.hashes) // 2) or self.gone == len(self.hashes)

    def kept(self, begin: int = 0, end: int | None = None) -> Rows:
        """Return the rows from *begin* to *end*, without the rows whose place was removed. O(rows)."""
        hashes, places = np.frombuffer(self.hashes, U64)[begin:end], np.frombuffer(self.places, U64)[begin:end]
        if not self.gone:
            return hashes, places
        kept = places != NOWHERE
        return hashes[kept], places[kept]

    def merged(self, hashes: Words, places: Words) -> tuple[Rows, list[int]]:
        """Merge the column with sorted *hashes* and their *places*. Return the merged rows, and the replaced places of
        hashes that are in both. O(rows).
        """
        old_hashes, old_places = self.kept()
        at = old_hashes.searchsorted(hashes)
        inside = at < len(old_hashes)
        same = at[inside][old_hashes[at[inside]] == hashes[inside]]
        lost = old_places[same].tolist()
        if lost:
            at -= same.searchsorted(at)
            old_hashes, old_places = np.delete(old_hashes, same), np.delete(old_places, same)
        at += np.arange(len(at))
        is_old = np.ones(len(old_hashes) + len(at), np.bool_)
        is_old[at] = False
        merged = np.empty((2, len(is_old)), U64)
        merged[0, at], merged[1, at] = hashes, places
        merged[0, is_old], merged[1, is_old] = old_hashes, old_places
        return (merged[0], merged[1]), lost


def _array(values: Words) -> "array[int]":
    """Convert a numpy array to an array.array, in which a lookup takes half the time."""
    column = array("Q")
    column.frombytes(values.view(np.uint8).data)
    return column
