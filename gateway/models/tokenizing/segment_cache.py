"""Cache of the token ids of text segments, within a memory budget."""

import hashlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import compress

from cache_index.tokens import TokenIds

LONGEST_KEY = 256
"""Maximum number of characters of a segment that is its own cache key. Longer segments are hashed, which takes 1 us
more.
"""

_DIGEST_BYTES = 16
_ENTRY_BYTES = 170  # measured with tracemalloc on CPython 3.11, beside the bytes of key and ids

Key = str | bytes


class SegmentCache:
    """Cache of the token ids of recently used segments, up to *max_bytes*. The cache is thread-safe.

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
        """Estimated memory of the cache in bytes, from the sizes of keys and ids."""
        return self._bytes

    def keys(self, pieces: Iterable[str]) -> list[Key]:
        """Return the cache keys of *pieces*. O(characters)."""
        return [piece if len(piece) <= LONGEST_KEY else self._digest(piece) for piece in pieces]

    def get(self, keys: Sequence[Key]) -> list[TokenIds | None]:
        """Return the token ids for each of *keys*, or None for a missing key. About 0.2 us per key."""
        kept = self._kept
        with self._lock:
            found = [*map(kept.get, keys)]
            for key in compress(keys, found):
                kept.move_to_end(key)
        return found

    def put(self, entries: Iterable[tuple[Key, TokenIds]]) -> None:
        """Store *entries*. If there is not enough space, remove the least recently used entries."""
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
