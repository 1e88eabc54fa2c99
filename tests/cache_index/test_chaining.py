"""Compared with the same sums in Python's own ints; tests of `TokenHasher` compare it with numpy."""

import random

import pytest

from cache_index.chaining import chained

WHOLE = 2**64


def summed(
    tokens: bytes,
    blocks: int,
    *,
    word_bytes: int,
    addends: list[int],
    factors: list[int],
    positions: list[int],
    after: int,
) -> list[int]:
    hashes = []
    words = [int.from_bytes(tokens[at : at + word_bytes], "little") for at in range(0, len(tokens), word_bytes)]
    for place in range(blocks):
        of_block = words[place * len(addends) : (place + 1) * len(addends)]
        mixed = [(word + addend) % WHOLE for word, addend in zip(of_block, addends, strict=True)]
        own = sum((one ^ one >> 32) * factor for one, factor in zip(mixed, factors, strict=True))
        after = (after + own * positions[place]) % WHOLE
        hashes.append(after)
    return hashes


def packed(numbers: list[int]) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


@pytest.mark.parametrize("is_of_pairs", [True, False])
@pytest.mark.parametrize("words", [1, 3, 8])
@pytest.mark.parametrize("blocks", [0, 1, 5])
@pytest.mark.parametrize("after", [0, -1, 2**63 - 1, -(2**63)])
def test_a_chain_is_a_running_sum_modulo_2_to_the_64(is_of_pairs: bool, words: int, blocks: int, after: int) -> None:
    """Sum over all blocks of the block's own hash times the factor of its position. A partial block has no hash."""
    rng = random.Random(f"{words} {blocks}")
    word_bytes = 8 if is_of_pairs else 4
    tokens = rng.randbytes(blocks * words * word_bytes) + b"\xff" * (word_bytes - 1)
    addends, factors, positions = ([rng.getrandbits(64) for _ in range(count)] for count in (words, words, blocks + 1))

    assert packed(
        summed(
            tokens,
            blocks,
            word_bytes=word_bytes,
            addends=addends,
            factors=factors,
            positions=positions,
            after=after % WHOLE,
        )
    ) == chained(
        tokens,
        blocks,
        is_of_pairs=is_of_pairs,
        addends=packed(addends),
        factors=packed(factors),
        positions=packed(positions),
        after=after,
    )
