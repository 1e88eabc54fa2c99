import numpy as np
import pytest

from cache_index.chain import U64, BlockHash, Positions, keyed_generator

ROOT = np.array([7], dtype=U64)


def test_equal_keys_give_equal_numbers() -> None:
    """Each part of a key counts."""
    assert keyed_generator(1, 2).integers(2**63) == keyed_generator(1, 2).integers(2**63)
    assert keyed_generator(1, 2).integers(2**63) != keyed_generator(1, 3).integers(2**63)


@pytest.mark.parametrize("blocks", [10, 2000])
def test_a_block_has_the_same_hash_wherever_it_is(blocks: int) -> None:
    """Few blocks are summed in another way than many."""
    block_hash = BlockHash(keyed_generator(1), words=2)
    each = block_hash.each(b"first block 16 b" * (blocks - 1) + b"another block...", blocks)

    assert {each[0].item()} == set(each[:-1].tolist())
    assert each[0] == block_hash.each(b"first block 16 b", 1)[0]
    assert each[0] != each[-1]


def test_words_may_be_narrow() -> None:
    """Blocks of an odd number of token ids have no whole number of 64-bit words."""
    block_hash = BlockHash(keyed_generator(1), words=3, word=np.uint32)
    each = block_hash.each(b"abcdefghijkl" + b"abcdefghijkX" + b"abcdefghijkl", 3)

    assert each[0] == each[2] != each[1]


@pytest.mark.parametrize("cut", [1, 5, 1023, 1024, 2999])
def test_a_chain_may_be_cut_anywhere(cut: int) -> None:
    """It goes on from the hash and position of any block."""
    each = np.arange(3000, dtype=U64)
    whole = Positions(keyed_generator(1)).link(each.copy(), 0, ROOT)
    positions = Positions(keyed_generator(1))
    head = positions.link(each[:cut].copy(), 0, ROOT)
    tail = positions.link(each[cut:].copy(), cut, head[-1:])

    assert whole.tolist() == [*head.tolist(), *tail.tolist()]


def test_a_single_block_may_be_linked_without_numpy() -> None:
    """The factor of its position is what a block's own hash is multiplied by, also for positions never used before."""
    positions = Positions(keyed_generator(1))
    factor = positions.factor(5000)

    assert 1 == factor % 2
    assert [(7 + 3 * factor) % 2**64] == positions.link(np.array([3], dtype=U64), 5000, ROOT).tolist()
