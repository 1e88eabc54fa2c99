"""A prompt as the chain of its block hashes.

1. A hash names a block *and all before it*: equal hash, equal prefix. So one comparison settles a whole run of blocks.
2. The hash key is random per process: a client cannot choose two prompts that collide.
3. The scope (model, adapter, cache salt) is hashed into the first block: prefixes of different scopes never meet.

All blocks of a prompt are hashed in one vectorised pass: a keyed multiply-xor of each block's words, their sum times an
odd factor of the position, and the running sum of those. Two prompts collide with a chance below 2^-32 even if somebody
who does not know the key tried to make them.
"""

import functools
import hashlib

import msgspec
import numpy as np
import numpy.typing as npt

HASH_BYTES = 8
_WORD_BYTES = 8
_U64 = np.uint64
_HALF = np.array([32], dtype=_U64)  # an array: numpy takes longer to convert a scalar than to shift by it


class Prefix(msgspec.Struct, frozen=True, gc=False):
    """The full blocks of a prompt, in order. A msgspec Struct, at a tenth of a frozen dataclass's cost.

    ``hashes`` holds 8 bytes a block; the hash of block *i* covers blocks 0 to *i* and the scope.
    """

    hashes: bytes

    @property
    def blocks(self) -> int:
        return len(self.hashes) // HASH_BYTES


class Hasher:
    """Cuts text into blocks of *block_bytes* and hashes each with all before it.

    *key* is 32 random bytes. A tail shorter than a block has no hash: an engine caches full blocks only.
    """

    def __init__(self, key: bytes, *, block_bytes: int) -> None:
        if block_bytes < _WORD_BYTES or block_bytes % _WORD_BYTES:
            raise ValueError(f"block_bytes must be a positive multiple of {_WORD_BYTES}, not {block_bytes}")
        self.block_bytes = block_bytes
        self._key = key
        self._words = words = block_bytes // _WORD_BYTES
        keyed = np.random.Generator(np.random.PCG64(int.from_bytes(key, "little")))
        self._addends = keyed.integers(0, 2**64, size=words, dtype=_U64)
        self._factors = keyed.integers(0, 2**64, size=words, dtype=_U64) | _U64(1)
        self._positions = keyed
        self._position_factors: npt.NDArray[np.uint64] = np.empty(0, dtype=_U64)
        # Nearly all prompts of a process are of a few scopes; a flood of salts must not make the cache grow.
        self._seed = functools.lru_cache(maxsize=256)(self._seed_of)

    def prefix(self, text: bytes, scope: bytes = b"") -> Prefix:
        """The chain of block hashes of *text* within *scope*. O(len(text)).

        Few calls of numpy, because each costs as much as hashing a kilobyte.
        """
        blocks = len(text) // self.block_bytes
        if blocks == 0:
            return Prefix(b"")
        mixed = np.ndarray((blocks, self._words), _U64, text) + self._addends
        # Without the shift a sum of products forgets high bits: two flipped top bits would cancel for any factors.
        np.bitwise_xor(mixed, np.right_shift(mixed, _HALF), mixed)
        # Measured: one call is faster than two until a thousand blocks, then the plainer loops win.
        chain = mixed.dot(self._factors) if blocks < 1000 else np.add.reduce(mixed * self._factors, axis=1)
        if blocks > len(self._position_factors):
            self._extend_positions(blocks)
        chain *= self._position_factors[:blocks]
        np.add.accumulate(chain, out=chain)
        np.add(chain, self._seed(scope), chain)
        return Prefix(chain.tobytes())

    def _seed_of(self, scope: bytes) -> npt.NDArray[np.uint64]:
        digest = hashlib.blake2b(scope, digest_size=HASH_BYTES, key=self._key).digest()
        return np.frombuffer(digest, dtype=_U64)

    def _extend_positions(self, blocks: int) -> None:
        """One odd random factor per position, so that the same blocks in another order hash otherwise."""
        more = self._positions.integers(0, 2**64, size=max(1024, blocks), dtype=_U64) | _U64(1)
        self._position_factors = np.concatenate([self._position_factors, more])
