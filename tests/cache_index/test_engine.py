from cache_index.block_tree import LATELY, BlockTree
from cache_index.counts import Counts
from cache_index.engine import REMEMBERED, Engine
from cache_index.event import Tier


class Told:
    """An engine that told of one run of blocks with the hashes 1, 2, 3 and so on."""

    def __init__(self, blocks: int) -> None:
        self.tree = BlockTree()
        self.engine = Engine(0, "model", self.tree, Counts())
        keys = b"".join(i.to_bytes(8, "little") for i in range(1, blocks + 1))
        found = self.tree.grow(self.tree.root, 0, keys, 0)
        self.engine.pool(Tier.GPU).put(list(range(1, blocks + 1)), found, copies=True)

    def copy(self, engine_hash: int, tier: Tier) -> None:
        found = self.engine.find(engine_hash)
        assert found is not None
        self.engine.pool(tier).put([engine_hash], [(*found, 1)], copies=True)

    def offset(self, engine_hash: int) -> int | None:
        found = self.engine.find(engine_hash)
        return None if found is None else found[1]


def test_a_block_is_found_in_any_tier() -> None:
    """By the same hash."""
    told = Told(2)
    told.copy(2, Tier.SHARED)
    told.engine.gpu.clear()

    assert (None, 1) == (told.offset(1), told.offset(2))


def test_an_engine_with_one_tier_forgets_what_it_removes() -> None:
    """Nobody will refer to it."""
    told = Told(2)

    assert told.engine.remove(2, Tier.GPU)
    assert not told.engine.remove(2, Tier.GPU)
    assert told.offset(2) is None


def test_an_engine_with_more_tiers_remembers_what_it_removed_for_some_time() -> None:
    """The last 2048 blocks."""
    told = Told(REMEMBERED + 5)
    told.copy(1, Tier.CPU)
    for i in range(2, REMEMBERED + 4):
        assert told.engine.remove(i, Tier.GPU)

    assert [0, None, None, 3] == [told.offset(i) for i in (1, 2, 3, 4)]
    assert not told.engine.remove(2, Tier.GPU)


def test_a_block_removed_twice_is_remembered_until_the_second_time_is_long_ago() -> None:
    """It came back in between."""
    told = Told(REMEMBERED + 5)
    told.copy(1, Tier.CPU)
    told.engine.remove(2, Tier.GPU)
    told.copy(2, Tier.GPU)
    for i in range(3, REMEMBERED):
        told.engine.remove(i, Tier.GPU)
    told.engine.remove(2, Tier.GPU)
    for i in range(REMEMBERED, REMEMBERED + 4):
        told.engine.remove(i, Tier.GPU)

    assert 1 == told.offset(2)


def test_a_place_that_nobody_keeps_cannot_be_remembered() -> None:
    """It leads nowhere."""
    told = Told(2)
    place = told.engine.gpu.place(2)
    assert place is not None
    told.engine.gpu.clear()
    told.engine.remember(2, place)

    assert told.offset(2) is None
    assert {} == told.engine.check()


def test_clearing_leaves_what_is_shared() -> None:
    """It is not in the worker's own memory."""
    told = Told(3)
    told.copy(1, Tier.SHARED)
    told.copy(2, Tier.CPU)
    told.engine.remove(3, Tier.GPU)
    told.engine.clear()

    assert [0, None, None] == [told.offset(i) for i in (1, 2, 3)]
    assert 1 == len(told.engine.pool(Tier.SHARED))
    assert LATELY not in {tier for _, tier, _ in told.engine.check()}


def test_block_sizes_are_counted_in_blocks() -> None:
    """Most tell what the engine's is."""
    told = Told(1)
    told.engine.learn_block_size(16, 3)
    told.engine.learn_block_size(16, 1)
    told.engine.learn_block_size(7, 1)

    assert {16: 4, 7: 1} == told.engine.block_sizes
