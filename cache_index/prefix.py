"""Represent a prompt as a chain of block hashes.

1. A hash identifies a block *and all blocks before it*: equal hashes mean equal prefixes. So one comparison covers a
   whole run of blocks.
2. The hash key is random and known only to this process and its replicas. A client cannot construct two prompts that
   collide.
3. The scope (model, adapter, cache salt) is part of the first hash. Prompts of different scopes never match.

All blocks of a prompt are hashed in one vectorized pass. Each block gets a keyed multiply-xor hash of its words, which
is multiplied by an odd factor for its position. The chain is the running sum of these products. Without the key, the
probability of a collision is below 2^-32, even for chosen prompts.
"""

import functools
import hashlib
from typing import Final

import numpy as np

from cache_index.chain import U64, BlockHash, Positions, keyed_generator
from cache_index.chaining import chained
from cache_index.compiled import IS_COMPILED
from cache_index.native import mypyc_attr
from cache_index.value import Value

HASH_BYTES: Final = 8
MAX_CACHED_BYTES: Final = 512
"""Maximum length in bytes of a scope whose seed is cached. Scopes contain cache salts, which clients choose and which
can be long.
"""
_WORD_BYTES: Final = 8
_MAX_LOOPED_BYTES: Final = 32_768
"""Maximum length in bytes of a text that the compiled loop hashes faster than numpy. One numpy call costs as much as
hashing some kilobytes.
"""


@mypyc_attr(acyclic=True)
class Prefix(Value):
    """Hashes of the full blocks of a prompt, in order.

    ``hashes`` has 8 bytes per block. The hash of block *i* covers the scope and blocks 0 to *i*.
    """

    __match_args__ = ("hashes", "block_tokens")
    __slots__ = __match_args__

    def __init__(
        self,
        hashes: bytes,
        block_tokens: int = 0,
    ) -> None:
        self.hashes: Final = hashes
        self.block_tokens: Final = block_tokens
        """Number of tokens per block if blocks consist of exact tokens, or 0 if blocks consist of text bytes."""

    @property
    def blocks(self) -> int:
        return len(self.hashes) // HASH_BYTES


def common_blocks(run: bytes, offset: int, hashes: bytes, start: int) -> int:
    """Return the number of equal blocks of *run* from block *offset* on and *hashes* from block *start* on.

    The cost is one memory comparison if all of *run* matches. Otherwise it is O(log blocks), because a hash covers all
    blocks before it.
    """
    rest = run[offset * HASH_BYTES :]
    begin = start * HASH_BYTES
    if hashes[begin : begin + len(rest)] == rest:  # startswith() takes five times as long
        return len(rest) // HASH_BYTES
    low, high = 0, min(len(rest), len(hashes) - begin) // HASH_BYTES
    while low < high:
        middle = (low + high) // 2
        at = middle * HASH_BYTES
        if rest[at : at + HASH_BYTES] == hashes[begin + at : begin + at + HASH_BYTES]:
            low = middle + 1
        else:
            high = middle
    return low


class Hasher:
    """Split text into blocks of *block_bytes* bytes and hash each block together with all blocks before it.

    *key* is 32 random bytes. An incomplete last block is not hashed, because engines cache only full blocks. The method
    depends on *is_compiled*, but the hashes do not.
    """

    def __init__(self, key: bytes, *, block_bytes: int, is_compiled: bool = IS_COMPILED) -> None:
        if block_bytes < _WORD_BYTES or block_bytes % _WORD_BYTES:
            raise ValueError(f"block_bytes must be a positive multiple of {_WORD_BYTES}, not {block_bytes}")
        self.block_bytes = block_bytes
        self._is_compiled = is_compiled
        self.use(key)

    def use(self, key: bytes) -> None:
        """Use *key* for hashing from now on. Hashes made with the previous key no longer match."""
        self._key = key
        number = int.from_bytes(key, "little")
        self._block_hash = BlockHash(keyed_generator(number, self.block_bytes), words=self.block_bytes // _WORD_BYTES)
        self._positions = Positions(keyed_generator(number, 0))
        # Nearly all prompts have one of a few scopes; a flood of salts must not make the cache grow.
        self._cached_seed = functools.lru_cache(maxsize=256)(self._seed_of)

    def prefix(self, text: bytes, scope: bytes = b"") -> Prefix:
        """Return the block hashes of *text* within *scope*. O(len(text))."""
        blocks = len(text) // self.block_bytes
        if blocks == 0:
            return Prefix(b"")
        seed = self._seed(scope)
        if self._is_compiled and len(text) <= _MAX_LOOPED_BYTES:
            hashes = chained(
                text,
                blocks,
                is_of_pairs=True,
                addends=self._block_hash.addends,
                factors=self._block_hash.factors,
                positions=self._positions.packed(0, blocks),
                after=seed - (seed >> 63 << 64),
            )
            return Prefix(hashes)
        each = self._block_hash.each(text, blocks)
        return Prefix(self._positions.link(each, 0, np.array([seed], dtype=U64)).tobytes())

    def _seed(self, scope: bytes) -> int:
        return self._cached_seed(scope) if len(scope) <= MAX_CACHED_BYTES else self._seed_of(scope)

    def _seed_of(self, scope: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(scope, digest_size=HASH_BYTES, key=self._key).digest(), "little")
