"""Remembers the token ids of pieces of text, within a budget of bytes."""

import hashlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import compress

from cache_index.tokens import TokenIds

LONGEST_KEY = 256
"""Longest piece that is its own key; a longer one has a digest, which takes 1 us more to make."""

_DIGEST_BYTES = 16
_ENTRY_BYTES = 170  # measured with tracemalloc on CPython 3.11, beside the bytes of key and ids

Key = str | bytes


class SegmentCache:
    """Ids of the pieces that were used most recently, up to *max_bytes*. Safe to share between threads.

    Digests are keyed with random bytes, so that a caller cannot choose two texts with the same digest.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._key = secrets.token_bytes(32)
        self._kept: OrderedDict[Key, TokenIds] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()  # what is done under it takes microseconds

    @property
    def size_bytes(self) -> int:
        """Memory in use, estimated from the sizes of keys and ids."""
        return self._bytes

    def keys(self, pieces: Iterable[str]) -> list[Key]:
        """Return the keys of *pieces*. O(characters)."""
        return [piece if len(piece) <= LONGEST_KEY else self._digest(piece) for piece in pieces]

    def get(self, keys: Sequence[Key]) -> list[TokenIds | None]:
        """Return the ids under each of *keys*; None for those that are not kept. 0.2 us each."""
        kept = self._kept
        with self._lock:
            found = [*map(kept.get, keys)]
            for key in compress(keys, found):
                kept.move_to_end(key)
        return found

    def put(self, entries: Iterable[tuple[Key, TokenIds]]) -> None:
        """Keep *entries*, and forget the least recently used ones if there is no room."""
        with self._lock:
            for key, ids in entries:
                if key not in self._kept:
                    self._kept[key] = ids
                    self._bytes += _size(key, ids)
            while self._bytes > self.max_bytes:
                self._bytes -= _size(*self._kept.popitem(last=False))

    def _digest(self, piece: str) -> bytes:
        return hashlib.blake2b(piece.encode(), digest_size=_DIGEST_BYTES, key=self._key).digest()


def _size(key: Key, ids: TokenIds) -> int:
    return _ENTRY_BYTES + len(key) + len(ids)
