from cache_index.block_tree import LATELY, BlockTree
from cache_index.counts import Counts
from cache_index.engine import REMEMBERED, Engine
from cache_index.event import Tier


class Reports:
    """An engine that reported one run of blocks with the hashes 1, 2, 3 and so on."""

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
    """The copy in the other tier has the same hash."""
    reported = Reports(2)
    reported.copy(2, Tier.SHARED)
    reported.engine.gpu.clear()

    assert (None, 1) == (reported.offset(1), reported.offset(2))


def test_an_engine_with_one_tier_forgets_what_it_removes() -> None:
    """No later report will refer to it."""
    reported = Reports(2)

    assert reported.engine.remove(2, Tier.GPU)
    assert not reported.engine.remove(2, Tier.GPU)
    assert reported.offset(2) is None


def test_an_engine_with_more_tiers_remembers_what_it_removed_for_some_time() -> None:
    """The last 2048 blocks."""
    reported = Reports(REMEMBERED + 5)
    reported.copy(1, Tier.CPU)
    for i in range(2, REMEMBERED + 4):
        assert reported.engine.remove(i, Tier.GPU)

    assert [0, None, None, 3] == [reported.offset(i) for i in (1, 2, 3, 4)]
    assert not reported.engine.remove(2, Tier.GPU)


def test_a_block_removed_twice_is_remembered_until_the_second_time_is_long_ago() -> None:
    """It came back in between."""
    reported = Reports(REMEMBERED + 5)
    reported.copy(1, Tier.CPU)
    reported.engine.remove(2, Tier.GPU)
    reported.copy(2, Tier.GPU)
    for i in range(3, REMEMBERED):
        reported.engine.remove(i, Tier.GPU)
    reported.engine.remove(2, Tier.GPU)
    for i in range(REMEMBERED, REMEMBERED + 4):
        reported.engine.remove(i, Tier.GPU)

    assert 1 == reported.offset(2)


def test_a_place_that_no_one_keeps_cannot_be_remembered() -> None:
    """It leads nowhere."""
    reported = Reports(2)
    place = reported.engine.gpu.place(2)
    assert place is not None
    reported.engine.gpu.clear()
    reported.engine.remember(2, place)

    assert reported.offset(2) is None
    assert {} == reported.engine.check()


def test_clearing_leaves_what_is_shared() -> None:
    """It is not in the worker's own memory."""
    reported = Reports(3)
    reported.copy(1, Tier.SHARED)
    reported.copy(2, Tier.CPU)
    reported.engine.remove(3, Tier.GPU)
    reported.engine.clear()

    assert [0, None, None] == [reported.offset(i) for i in (1, 2, 3)]
    assert 1 == len(reported.engine.pool(Tier.SHARED))
    assert LATELY not in {tier for _, tier, _ in reported.engine.check()}


def test_block_sizes_are_counted_in_blocks() -> None:
    """The most frequent size is the engine's."""
    reported = Reports(1)
    reported.engine.learn_block_size(16, 3)
    reported.engine.learn_block_size(16, 1)
    reported.engine.learn_block_size(7, 1)

    assert {16: 4, 7: 1} == reported.engine.block_sizes
