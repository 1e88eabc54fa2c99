"""Mapping from the block hashes of an engine to places in the block tree. The mapping takes 16 bytes per block."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

import numpy as np

from cache_index.chain import U64, Words
from cache_index.column import ROW_BYTES, Column, Rows

NEW_BYTES = 120
"""Memory of one block in the dict, in bytes: two ints (48 and 32) and a dict entry. It was measured on CPython 3.11."""

_LONG = 16
"""Minimum number of blocks in a run that is stored in an array instead of the dict."""
_MIN_WAITING = 1024
_MAX_WAITING = 1 << 15
"""Maximum number of blocks to collect before they are merged. Four times as many would halve the time of merging."""
PIECE: Final = 1 << 12
"""Maximum number of blocks to sort at once, which takes 0.2 ms. Combining the pieces of `_MAX_WAITING` blocks takes
less than 1 ms, because a stable sort only merges sorted pieces. Sorting so many unsorted blocks would take 3 ms.
"""
MERGE_EVERY: Final = 128
"""Minimum number of new blocks between two merges, because an engine may report them one by one."""
_WAITING_SHARE = 1 / 3
"""Maximum ratio of unsorted to sorted blocks. A lower ratio takes less memory but more time, because every merge moves
all blocks.
"""
_LAST = U64(2**64 - 1)


class Places:
    """Mapping from engine hashes to places in the block tree. Hashes and places are below 2**64, and no place is 0.

    1. New blocks are first collected: short runs in a dict, and long runs in arrays. A long run moves to the dict when
       one of its hashes may be looked up. Every `PIECE` collected blocks are sorted.
    2. When there are enough new blocks, their pieces are combined and merged into sorted columns. A `put` merges into
       at most one column, so that no call takes long. A column has all hashes from its lower bound to the bound of the
       next column.
    """

    __slots__ = (
        "_bounds",
        "_columns",
        "_ends",
        "_gone",
        "_lost",
        "_merged",
        "_new",
        "_pieces",
        "_pieces_rows",
        "_rows",
        "_run_hashes",
        "_runs",
        "_sorted",
        "_unmerged",
    )

    def __init__(self) -> None:
        self._lost: list[int] = []
        self._forget_all()

    def _forget_all(self) -> None:
        self._columns = [Column()]
        self._bounds: list[int] = []
        """Lowest hash of every sorted column except the first."""
        self._pieces: list[Column] = []
        """Sorted pieces of new blocks, oldest first."""
        self._pieces_rows = 0
        self._sorted: Column | None = None
        """Sorted blocks that are being merged into the columns, or None."""
        self._merged = 0
        """Number of sorted blocks in `_sorted` that are already merged into the columns."""
        self._unmerged = 0
        """Number of blocks that were added since the last merge into a column."""
        self._rows = 0
        """Total number of rows in the columns, in the pieces and in the blocks being merged."""
        self._gone = 0
        """Number of those rows whose block was removed."""
        self._new: dict[int, int] = {}
        self._leave_runs()

    def _leave_runs(self) -> None:
        self._run_hashes = array("Q")
        """Hashes of all long runs that are collected but not sorted yet."""
        self._runs: list[tuple[int, int]] = []
        """Number of blocks and place of the first block, for each long run that is not sorted yet."""
        self._ends: dict[int, int] = {}
        """Places of the last blocks of collected runs. These blocks are the likely parents in the next event."""

    def __len__(self) -> int:
        return self._rows - self._gone + len(self._new) + len(self._run_hashes)

    @property
    def size_bytes(self) -> int:
        return (self._rows + len(self._run_hashes)) * ROW_BYTES + len(self._new) * NEW_BYTES

    def get(self, engine_hash: int) -> int | None:
        """Return the tree place of a block, or None if the block's hash is unknown. O(log blocks), amortized."""
        place = self._new.get(engine_hash) or self._ends.get(engine_hash)
        if place is not None:
            return place
        found = self._find(engine_hash)
        if found is not None:
            return found[0].places[found[1]]
        if self._runs:
            self._open_runs()
            return self._new.get(engine_hash)
        return None

    def put(self, hashes: list[int], first: int) -> None:
        """Add *hashes* with consecutive places, starting at place *first*. O(hashes), amortized, with short worst-case
        pauses.
        """
        if len(hashes) < _LONG:
            self._add(hashes, first)
        else:
            self._run_hashes.extend(array("Q", hashes))
            self._runs.append((len(hashes), first))
            self._ends[hashes[-1]] = first + len(hashes) - 1
        collected = len(self._new) + len(self._run_hashes)
        self._unmerged += len(hashes)
        if collected >= PIECE:
            self._sort()
        elif self._sorted is not None:
            if self._unmerged >= MERGE_EVERY:
                self._merge_some(self._sorted)
        elif collected + self._pieces_rows > self._max_waiting():
            self._combine()

    def lost(self) -> list[int]:
        """Return and clear the places whose hash was reassigned to another block. Some reassignments are detected only
        after a delay.
        """
        lost = self._lost
        if lost:
            self._lost = []
        return lost

    def pop(self, engine_hash: int) -> int | None:
        """Remove a block and return its place, or None if the block's hash is unknown. O(log blocks), amortized."""
        if engine_hash in self._ends:
            self._open_runs()
        place = self._new.pop(engine_hash, None)
        if place is not None:
            return place
        found = self._find(engine_hash)
        if found is not None:
            column, at = found
            place = column.take_out(at)
            self._gone += 1
            if column is self._sorted or column.is_sparse:
                self._tidy(column)
        elif self._runs:
            self._open_runs()
            place = self._new.pop(engine_hash, None)
        return place

    def oldest(self, count: int) -> list[int]:
        """Return the hashes of the blocks at the *count* lowest places. Collected blocks that are not sorted yet come
        last. O(blocks).
        """
        self._open_runs()
        hashes, places = self._in_order()
        lowest = places.argsort()[:count]
        waiting = sorted(self._new, key=self._new.__getitem__)
        return [*hashes[lowest].tolist(), *waiting[: count - len(lowest)]]

    def hash_at(self, place: int) -> int | None:
        """Return a hash that is mapped to *place*, or None without such a hash. O(blocks)."""
        self._open_runs()
        for engine_hash, at in self._new.items():
            if at == place:
                return engine_hash
        hashes, places = self._in_order()
        found: list[int] = hashes[places == U64(place)].tolist()
        return found[0] if found else None

    def all(self) -> Words:
        """Return the places of all blocks in the tree. O(blocks)."""
        return np.concatenate([self._in_order()[1], self._unsorted()[1]])

    def _max_waiting(self) -> float:
        """Return the number of new blocks above which they are merged into the columns."""
        return max(_MIN_WAITING, min(_MAX_WAITING, (self._rows - self._pieces_rows) * _WAITING_SHARE))

    def _in_order(self) -> Rows:
        """Return the rows of all columns, of the pieces and of the blocks that are being merged."""
        rows = [column.kept() for column in (*self._columns, *self._pieces)]
        if self._sorted is not None:
            rows.append(self._sorted.kept(self._merged))
        return np.concatenate([hashes for hashes, _ in rows]), np.concatenate([places for _, places in rows])

    def _find(self, engine_hash: int) -> tuple[Column, int] | None:
        """Return the column and row of a hash, or None if the hash is missing. Newer blocks are searched first."""
        for piece in reversed(self._pieces):
            at = piece.find(engine_hash, 0)
            if at is not None:
                return piece, at
        if self._sorted is not None:
            at = self._sorted.find(engine_hash, self._merged)
            if at is not None:
                return self._sorted, at
        column = self._columns[bisect_right(self._bounds, engine_hash) if self._bounds else 0]
        at = column.find(engine_hash, 0)
        return None if at is None else (column, at)

    def _add(self, hashes: Iterable[int], first: int) -> None:
        """Add *hashes* with consecutive places to the dict of unsorted blocks."""
        new = self._new
        for place, engine_hash in enumerate(hashes, first):
            if engine_hash in new:
                self._lost.append(new[engine_hash])
            new[engine_hash] = place

    def _open_runs(self) -> None:
        """Move all collected long runs from arrays into the dict."""
        begin = 0
        for blocks, first in self._runs:
            self._add(self._run_hashes[begin : begin + blocks], first)
            begin += blocks
        self._leave_runs()

    def _sort(self) -> None:
        """Sort all collected blocks into a new piece."""
        hashes, places = self._distinct(*self._unsorted())
        self._pieces.append(Column(hashes, places))
        self._pieces_rows += len(hashes)
        self._rows += len(hashes)
        self._new = {}
        self._leave_runs()

    def _combine(self) -> None:
        """Combine all collected blocks and all pieces, and start to merge them into the columns."""
        self._sort()
        pieces = [piece.kept() for piece in self._pieces]
        self._rows -= self._pieces_rows
        self._gone -= sum([piece.gone for piece in self._pieces])
        self._pieces, self._pieces_rows = [], 0
        hashes, places = self._distinct(
            np.concatenate([hashes for hashes, _ in pieces]), np.concatenate([places for _, places in pieces])
        )
        self._rows += len(hashes)
        self._sorted = Column(hashes, places)
        self._merged = self._unmerged = 0
        if len(hashes) <= PIECE:
            self._merge_some(self._sorted)

    def _distinct(self, hashes: Words, places: Words) -> Rows:
        """Return the rows sorted by hash. If a hash occurs several times, only the last place is kept."""
        order = hashes.argsort(kind="stable")
        hashes, places = hashes[order], places[order]
        again = hashes[1:] == hashes[:-1]
        if again.any():
            self._lost += places[:-1][again].tolist()
            last = np.append(~again, [True])
            hashes, places = hashes[last], places[last]
        return hashes, places

    def _merge_some(self, waiting: Column) -> None:
        """Merge the next rows of *waiting* into one column."""
        self._unmerged = 0
        begin = self._merged
        at = bisect_right(self._bounds, waiting.hashes[begin])
        end = bisect_left(waiting.hashes, self._bounds[at], begin) if at < len(self._bounds) else len(waiting.hashes)
        hashes, places = waiting.kept(begin, end)
        self._rows -= end - begin
        self._gone -= end - begin - len(hashes)
        if end < len(waiting.hashes):
            self._merged = end
        else:
            self._sorted = None
        column = self._columns[at]
        merged, lost = column.merged(hashes, places)
        self._lost += lost
        self._replace(column, merged)

    def _replace(self, column: Column, rows: Rows) -> None:
        """Replace *column* with the rows *rows*, split into several columns if there are too many rows."""
        at = self._columns.index(column)
        columns = Column.split(rows)
        self._rows += len(rows[0]) - len(column.hashes)
        self._gone -= column.gone
        self._columns[at : at + 1] = columns
        self._bounds[at:at] = [column.hashes[0] for column in columns[1:]]

    def _tidy(self, column: Column) -> None:
        """Remove deleted rows from *column*, unless the column is a piece or is being merged."""
        if not len(self):
            self._forget_all()
        elif column in self._columns:
            self._replace(column, column.kept())

    def _unsorted(self) -> Rows:
        """Return the hashes and places of all collected blocks, unsorted."""
        count = len(self._new)
        hashes = [np.frombuffer(self._run_hashes, U64), np.fromiter(self._new, U64, count)]
        places = [_consecutive(self._runs), np.fromiter(self._new.values(), U64, count)]
        return np.concatenate(hashes), np.concatenate(places)


def _consecutive(runs: list[tuple[int, int]]) -> Words:
    """Return the places of all blocks in *runs*, which are pairs of a number of blocks and a first place."""
    lengths, firsts = np.array(runs, U64).reshape(-1, 2).T
    ends = lengths.cumsum()
    return np.repeat(firsts - ends + lengths, lengths.astype(np.intp)) + np.arange(lengths.sum(), dtype=U64)
