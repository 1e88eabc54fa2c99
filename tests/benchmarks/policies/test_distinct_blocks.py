from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.policies.distinct_blocks import DistinctBlocks

WORKERS = 2


def test_a_block_of_two_prompts_counts_once() -> None:
    """Until the second of them is discarded."""
    blocks = DistinctBlocks(WORKERS)
    blocks.add(0, [1, 2])
    blocks.add(0, [1, 3])

    assert (3, 0) == (blocks.count(0), blocks.count(1))
    blocks.discard(0, [1, 2])
    assert 2 == blocks.count(0)
    assert [2, 0] == blocks.leading([1, 3, 4])
    blocks.discard(0, [1, 3])
    assert 0 == blocks.count(0)
    assert [0, 0] == blocks.leading([1])


prompts = st.lists(st.integers(0, 5), max_size=4, unique=True)


@given(st.lists(st.tuples(st.integers(0, WORKERS - 1), prompts), max_size=10), st.data())
def test_what_is_counted_are_the_blocks_of_the_prompts_that_are_left(
    added: list[tuple[int, list[int]]], data: st.DataObject
) -> None:
    gone = data.draw(st.sets(st.sampled_from(range(len(added))))) if added else set()
    blocks = DistinctBlocks(WORKERS)
    for worker, prompt in added:
        blocks.add(worker, prompt)
    for place in gone:
        blocks.discard(*added[place])
    left = [Counter[int](), Counter[int]()]
    for place, (worker, prompt) in enumerate(added):
        if place not in gone:
            left[worker].update(prompt)

    assert [len(each) for each in left] == [blocks.count(worker) for worker in range(WORKERS)]
    for block in range(6):
        assert [int(block in each) for each in left] == blocks.leading([block])
