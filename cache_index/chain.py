"""Parts of a chain of block hashes: each block's own hash, an odd factor for its position, and a running sum."""

from typing import Final

import numpy as np
import numpy.typing as npt

U64 = np.uint64
U64_BYTES: Final = 8
Words = npt.NDArray[np.uint64]

_HALF = np.array([32], dtype=U64)  # an array: numpy takes longer to convert a scalar than to shift by it


def keyed_generator(*key: int) -> np.random.Generator:
    """Return random numbers that depend only on *key* and reveal nothing about the numbers of another key."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))


class BlockHash:
    """A keyed multiply-xor of the words of each block. It has *words* words of type *word*, of 64 bits or fewer."""

    def __init__(self, keyed: np.random.Generator, *, words: int, word: npt.DTypeLike = U64) -> None:
        self._words = words
        self._word = np.dtype(word)
        self._addends = keyed.integers(0, 2**64, size=words, dtype=U64)
        self._factors = keyed.integers(0, 2**64, size=words, dtype=U64) | U64(1)
        self.addends = self._addends.tobytes()
        self.factors = self._factors.tobytes()

    def each(self, data: bytes, blocks: int) -> Words:
        """Return the hash of each of the first *blocks* blocks of *data*, independent of the others.

        It makes few calls of numpy, because each costs as much as hashing a kilobyte.
        """
        mixed = np.ndarray((blocks, self._words), self._word, data) + self._addends
        # Without the shift a sum of products forgets high bits: two flipped top bits would cancel for any factors.
        np.bitwise_xor(mixed, np.right_shift(mixed, _HALF), mixed)
        # Measured: dot begins earlier, vecdot goes faster, above all where a block is one or two words.
        each: Words = mixed.dot(self._factors) if blocks < 100 else np.vecdot(mixed, self._factors)
        return each


class Positions:
    """One odd random factor per position, so that the same blocks in another order hash differently."""

    def __init__(self, keyed: np.random.Generator) -> None:
        self._keyed = keyed
        self._factors: Words = np.empty(0, dtype=U64)
        self._packed = b""

    def link(self, each: Words, start: int, after: Words) -> Words:
        """Return the chain of blocks with the hashes *each*, the first at position *start* and after the hash *after*.

        Works in place. A chain that is computed in parts has the same hashes.
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
        """Return the factors of *blocks* positions from *start* on, 8 bytes each."""
        end = start + blocks
        if end > len(self._factors):
            self._extend(end)
        return self._packed[start * U64_BYTES : end * U64_BYTES]

    def _extend(self, positions: int) -> None:
        more = self._keyed.integers(0, 2**64, size=max(1024, positions - len(self._factors)), dtype=U64) | U64(1)
        self._factors = np.concatenate([self._factors, more])
        self._packed = self._factors.tobytes()
