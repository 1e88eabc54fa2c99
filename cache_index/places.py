"""Where the blocks of one worker stand, by the hashes of its engine: 16 bytes a block."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from cache_index.chain import U64, Words

NEW_BYTES = 120
"""Of one in the dict: two ints (48 and 32) and an entry. Measured on CPython 3.11."""
COLUMN_BYTES = 16

_LONG = 16
"""Blocks of a run that is worth an array of its own."""
_FEWEST_WAITING = 1024
_WAITING_SHARE = 1 / 3
"""Of the sorted ones, that may wait: fewer take less memory, more take less time, because sorting in moves all."""
_NOWHERE = 0
_LAST = U64(2**64 - 1)


class Places:
    """Engine's hash -> place, both below 2**64; no place is 0.

    Most are in two columns, sorted by hash. New ones wait until enough of them have come to be sorted in: short runs in
    a dict, long ones as they came, and those go into the dict when a hash is looked up that might be theirs.
    """

    __slots__ = ("_ends", "_gone", "_hashes", "_lost", "_new", "_places", "_runs", "_waiting")

    def __init__(self) -> None:
        self._hashes = array("Q")
        self._places = array("Q")
        self._gone = 0
        """How many of the places are nowhere."""
        self._new: dict[int, int] = {}
        self._runs: list[tuple[array[int], int]] = []
        """Hashes, and the place of the first of them."""
        self._ends: dict[int, int] = {}
        """Of the last block of each run: what comes next names it as its parent."""
        self._waiting = 0
        """Blocks of the runs."""
        self._lost: list[int] = []

    def __len__(self) -> int:
        return len(self._hashes) - self._gone + len(self._new) + self._waiting

    @property
    def size_bytes(self) -> int:
        return (len(self._hashes) + self._waiting) * COLUMN_BYTES + len(self._new) * NEW_BYTES

    def get(self, engine_hash: int) -> int | None:
        """O(log blocks), amortised."""
        place = self._new.get(engine_hash) or self._ends.get(engine_hash)
        if place is not None:
            return place
        at = self._find(engine_hash)
        if at is not None:
            return self._places[at]
        if self._runs:
            self._open_runs()
            return self._new.get(engine_hash)
        return None

    def put(self, hashes: list[int], first: int) -> None:
        """*hashes* stand at *first* and the places after it. Amortised O(hashes)."""
        if len(hashes) < _LONG:
            self._add(hashes, first)
        else:
            self._runs.append((array("Q", hashes), first))
            self._ends[hashes[-1]] = first + len(hashes) - 1
            self._waiting += len(hashes)
        if len(self._new) + self._waiting > max(_FEWEST_WAITING, len(self._hashes) * _WAITING_SHARE):
            self._sort_in()

    def lost(self) -> list[int]:
        """Places whose hash came to stand for another, since the last call; of some it takes a while to find out."""
        lost = self._lost
        if lost:
            self._lost = []
        return lost

    def pop(self, engine_hash: int) -> int | None:
        """O(log blocks), amortised."""
        if engine_hash in self._ends:
            self._open_runs()
        place = self._new.pop(engine_hash, None)
        if place is not None:
            return place
        at = self._find(engine_hash)
        if at is not None:
            place = self._places[at]
            self._places[at] = _NOWHERE
            self._gone += 1
            if self._gone > max(_FEWEST_WAITING, len(self._hashes) // 2) or self._gone == len(self._hashes):
                self._sort_in()
        elif self._runs:
            self._open_runs()
            place = self._new.pop(engine_hash, None)
        return place

    def oldest(self, count: int) -> list[int]:
        """Hashes of the *count* lowest places, those that wait after all others. O(blocks)."""
        self._open_runs()
        places = np.frombuffer(self._places, U64)
        lowest = np.where(places == _NOWHERE, _LAST, places).argsort()[: min(count, len(places) - self._gone)]
        waiting = sorted(self._new, key=self._new.__getitem__)
        return [*np.frombuffer(self._hashes, U64)[lowest].tolist(), *waiting[: count - len(lowest)]]

    def all(self) -> Words:
        """Every place. O(blocks)."""
        places = np.frombuffer(self._places, U64)
        return np.concatenate([places[places != _NOWHERE], self._unsorted()[1]])

    def _find(self, engine_hash: int) -> int | None:
        hashes = self._hashes
        at = bisect_left(hashes, engine_hash)
        if at < len(hashes) and hashes[at] == engine_hash and self._places[at] != _NOWHERE:
            return at
        return None

    def _add(self, hashes: Iterable[int], first: int) -> None:
        """Into the dict."""
        new = self._new
        for place, engine_hash in enumerate(hashes, first):
            if engine_hash in new:
                self._lost.append(new[engine_hash])
            new[engine_hash] = place

    def _open_runs(self) -> None:
        """Runs into the dict: each block at most once."""
        for hashes, first in self._runs:
            self._add(hashes, first)
        self._leave_runs()

    def _leave_runs(self) -> None:
        self._runs = []
        self._ends = {}
        self._waiting = 0

    def _sort_in(self) -> None:
        """Leave nothing waiting and nothing that is gone. O(blocks)."""
        new_hashes, new_places = self._sorted_new()
        hashes, places = np.frombuffer(self._hashes, U64), np.frombuffer(self._places, U64)
        at = hashes.searchsorted(new_hashes)
        inside = at < len(hashes)
        same = at[inside][hashes[at[inside]] == new_hashes[inside]]
        if self._gone or len(same):
            kept = places != _NOWHERE
            self._lost += places[same][kept[same]].tolist()
            kept[same] = False
            hashes, places = hashes[kept], places[kept]
            at = hashes.searchsorted(new_hashes)
        self._hashes = _column(np.insert(hashes, at, new_hashes))
        self._places = _column(np.insert(places, at, new_places))
        self._gone = 0
        self._new = {}
        self._leave_runs()

    def _unsorted(self) -> tuple[Words, Words]:
        """Hashes and places of all that wait."""
        count = len(self._new)
        hashes = [np.frombuffer(run, U64) for run, _ in self._runs]
        places = [np.arange(first, first + len(run), dtype=U64) for run, first in self._runs]
        return (
            np.concatenate([*hashes, np.fromiter(self._new, U64, count)]),
            np.concatenate([*places, np.fromiter(self._new.values(), U64, count)]),
        )

    def _sorted_new(self) -> tuple[Words, Words]:
        """The same by hash; of equal hashes one of them."""
        hashes, places = self._unsorted()
        order = hashes.argsort()
        hashes, places = hashes[order], places[order]
        again = hashes[1:] == hashes[:-1]
        if again.any():
            self._lost += places[:-1][again].tolist()
            kept = np.append(~again, [True])
            hashes, places = hashes[kept], places[kept]
        return hashes, places


def _column(values: Words) -> "array[int]":
    return array("Q", values.tobytes())
