from engine_model.blocks import BlockScope
from simulator.cache_event import BlocksStored


def test_plain_blocks_have_no_extra_keys() -> None:
    """One entry per block all the same."""
    assert [None, None] == BlocksStored([1, 2], None, []).extra_keys()


def test_a_salt_is_reported_with_the_first_block_of_a_sequence_only() -> None:
    """The others have it by their parent."""
    scope = BlockScope(salt="s")

    assert [["s"], None] == BlocksStored([1, 2], None, [], scope).extra_keys()
    assert [None, None] == BlocksStored([1, 2], 7, [], scope).extra_keys()


def test_an_adapter_is_reported_with_every_block() -> None:
    """Before a salt."""
    scope = BlockScope(adapter="a", salt="s")

    assert [["a", "s"], ["a"]] == BlocksStored([1, 2], None, [], scope).extra_keys()
    assert [["a"], ["a"]] == BlocksStored([1, 2], 7, [], scope).extra_keys()
