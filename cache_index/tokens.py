"""Represent exact tokens as a chain of block hashes, both for prompts and for the events of engines.

1. The hash of a block covers the block, all blocks before it, and the scope: model, adapter, cache salt and block size.
   Other content of a block, such as an image, is hashed with it.
2. Engines report a sequence in runs of any length, so a chain can continue from the hash and position of any block.
3. The hash key is random and known only to this process and its replicas. A client cannot construct two prompts that
   collide.
"""

import functools
import hashlib
from array import array
from collections.abc import Sequence

import numpy as np

from cache_index.chain import U64, BlockHash, Positions, keyed_generator
from cache_index.chaining import chained
from cache_index.compiled import IS_COMPILED
from cache_index.prefix import HASH_BYTES, MAX_CACHED_BYTES, Prefix

TokenIds = bytes
"""Packed token ids: four bytes per id, little-endian."""

TOKEN_BYTES = 4

Extras = Sequence[bytes | None]
"""Additional content of each block, or None for blocks that consist only of tokens."""

_LARGEST = 2**64 - 1
_MAX_LOOPED = 512
"""Maximum number of blocks that the compiled loop hashes faster than numpy."""


def pack(ids: Sequence[int]) -> TokenIds:
    """Pack *ids* as `TokenIds`. Ids beyond 32 bits, such as SGLang's image ids, are folded to 32 bits. O(ids), 6 ns per
    id.

    Raises:
        ValueError: if an id is negative or has more than 64 bits.
        TypeError: if an id is not an int.
    """
    try:
        return array("I", ids).tobytes()
    except OverflowError:
        return array("I", map(_folded, ids)).tobytes()


def _folded(token: int) -> int:
    if not 0 <= token < 1 << 64:
        raise ValueError("a token id must not be negative or exceed 64 bits")
    return (token ^ (token >> 32)) & 0xFFFFFFFF


def scope_of(model: str, adapter: str | None = None, salt: str | None = None) -> bytes:
    """Return the scope of a prompt. Prompts share blocks only if their scopes are equal. Different arguments give
    different scopes.
    """
    scope = b""
    for name in (model, adapter, salt):
        text = b"" if name is None else name.encode()
        scope += b"-" if name is None else b"%d:%b" % (len(text), text)
    return scope


class TokenHasher:
    """Split token ids into blocks of any size and hash each block together with all blocks before it.

    *key* is 32 random bytes. The method depends on *is_compiled*, but the hashes do not.
    """

    def __init__(self, key: bytes, *, is_compiled: bool = IS_COMPILED) -> None:
        self._is_compiled = is_compiled
        self.use(key)

    def use(self, key: bytes) -> None:
        """Use *key* for hashing from now on. Hashes made with the previous key no longer match."""
        self._key = key
        self._number = int.from_bytes(key, "little")
        self._positions = Positions(keyed_generator(self._number, 0))
        self._block_hashes: dict[int, BlockHash] = {}
        # Nearly all prompts have one of a few scopes; a flood of salts must not make the cache grow.
        self._cached_digest = functools.lru_cache(maxsize=1024)(self._digest_of)

    def prefix(self, ids: TokenIds, *, block_size: int, scope: bytes = b"", extras: Extras | None = None) -> Prefix:
        """Return the hashes of the full blocks of *ids* within *scope*. O(len(ids)).

        *extras* has at least one element for every full block.
        """
        return Prefix(
            self.chain(self.root(scope, block_size), 0, ids, block_size=block_size, extras=extras), block_size
        )

    def root(self, scope: bytes, block_size: int) -> int:
        """Return the hash that precedes the first block of a sequence with this scope and block size."""
        return self._digest(b"%d/%b" % (block_size, scope))

    def chain(
        self, after: int, position: int, ids: TokenIds, *, block_size: int, extras: Extras | None = None
    ) -> bytes:
        """Return the hashes of the full blocks of *ids*, 8 bytes each, in the format of `Prefix`. O(len(ids)).

        *position* is the position of the first block in its sequence. *after* is the hash of the block before it, or
        the `root`.
        """
        blocks = len(ids) // (block_size * TOKEN_BYTES)
        block_hash = self._block_hash(block_size)
        if self._is_compiled and extras is None and blocks <= _MAX_LOOPED:
            return chained(
                ids,
                blocks,
                is_of_pairs=block_size % 2 == 0,
                addends=block_hash.addends,
                factors=block_hash.factors,
                positions=self._positions.packed(position, blocks),
                after=after - (after >> 63 << 64),
            )
        each = block_hash.each(ids, blocks)
        if extras is not None:
            each += np.array([0 if extra is None else self._digest(extra) for extra in extras[:blocks]], dtype=U64)
        if blocks == 1:  # generated tokens complete blocks one by one: numpy would take four times as long
            own: int = each.item()
            return (after + own * self._positions.factor(position) & _LARGEST).to_bytes(HASH_BYTES, "little")
        return self._positions.link(each, position, np.array([after], dtype=U64)).tobytes()

    def _block_hash(self, block_size: int) -> BlockHash:
        found = self._block_hashes.get(block_size)
        if found is None:
            pairs = block_size % 2 == 0
            found = self._block_hashes[block_size] = BlockHash(
                keyed_generator(self._number, block_size),
                words=block_size // 2 if pairs else block_size,
                word=U64 if pairs else np.uint32,
            )
        return found

    def _digest(self, content: bytes) -> int:
        return self._cached_digest(content) if len(content) <= MAX_CACHED_BYTES else self._digest_of(content)

    def _digest_of(self, content: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(content, digest_size=HASH_BYTES, key=self._key).digest(), "little")
