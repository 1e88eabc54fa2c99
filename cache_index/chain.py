"""Building blocks of chained block hashes: a hash of each block, an odd factor for its position, and a running sum."""

from typing import Final

import numpy as np
import numpy.typing as npt

U64 = np.uint64
U64_BYTES: Final = 8
Words = npt.NDArray[np.uint64]

_HALF = np.array([32], dtype=U64)  # an array: numpy takes longer to convert a scalar than to shift by it


def keyed_generator(*key: int) -> np.random.Generator:
    """Return a random generator that depends only on *key*. Numbers for one key reveal nothing about other keys."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))


class BlockHash:
    """Keyed multiply-xor hash of single blocks. A block has *words* words of type *word*, which has at most 64 bits."""

    def __init__(self, keyed: np.random.Generator, *, words: int, word: npt.DTypeLike = U64) -> None:
        self._words = words
        self._word = np.dtype(word)
        self._addends = keyed.integers(0, 2**64, size=words, dtype=U64)
        self._factors = keyed.integers(0, 2**64, size=words, dtype=U64) | U64(1)
        self.addends = self._addends.tobytes()
        self.factors = self._factors.tobytes()

    def each(self, data: bytes, blocks: int) -> Words:
        """Return the independent hashes of the first *blocks* blocks of *data*.

        The method uses few numpy calls, because each call costs as much as hashing a kilobyte.
        """
        mixed = np.ndarray((blocks, self._words), self._word, data) + self._addends
        # Without the shift a sum of products forgets high bits: two flipped top bits would cancel for any factors.
        np.bitwise_xor(mixed, np.right_shift(mixed, _HALF), mixed)
        # Measured: dot begins earlier, vecdot goes faster, above all where a block is one or two words.
        each: Words = mixed.dot(self._factors) if blocks < 100 else np.vecdot(mixed, self._factors)
        return each


class Positions:
    """Random odd factors, one per block position, which make the hash depend on the order of the blocks."""

    def __init__(self, keyed: np.random.Generator) -> None:
        self._keyed = keyed
        self._factors: Words = np.empty(0, dtype=U64)
        self._packed = b""

    def link(self, each: Words, start: int, after: Words) -> Words:
        """Chain the block hashes *each*. The first block has position *start*, and *after* is the hash before it.

        The method works in place. A chain that is computed in several parts has the same hashes as one computed at
        once.
        """
        end = start + len(each)
        if end > len(self._factors):
            self._extend(end)
        np.multiply(each, self._factors[start:end], each)
        np.add.accumulate(each, out=each)
        return np.add(each, after, each)

    def factor(self, position: int) -> int:
        if position >= len(self._factors):
            self._extend(position + 1)
        factor: int = self._factors.item(position)
        return factor

    def packed(self, start: int, blocks: int) -> bytes:
        """Return the factors of *blocks* consecutive block positions from *start* on, 8 bytes each."""
        end = start + blocks
        if end > len(self._factors):
            self._extend(end)
        return self._packed[start * U64_BYTES : end * U64_BYTES]

    def _extend(self, positions: int) -> None:
        more = self._keyed.integers(0, 2**64, size=max(1024, positions - len(self._factors)), dtype=U64) | U64(1)
        self._factors = np.concatenate([self._factors, more])
        self._packed = self._factors.tobytes()
