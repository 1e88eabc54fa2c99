from hypothesis import given
from hypothesis import strategies as st

from benchmarks.policies.holdings import Holdings

WORKERS = 3


def test_a_hole_ends_the_match() -> None:
    """The second worker has the third block, but not the second."""
    holdings = Holdings(WORKERS)
    holdings.add(0, [1, 2, 3])
    holdings.add(1, [1, 3])

    assert [3, 1, 0] == holdings.leading([1, 2, 3, 4])


def test_a_whole_prompt_is_a_match_of_its_length() -> None:
    holdings = Holdings(WORKERS)
    holdings.add(2, [1, 2])

    assert [0, 0, 2] == holdings.leading([1, 2])
    assert [0, 0, 0] == holdings.leading([])


changes = st.lists(st.tuples(st.booleans(), st.integers(0, WORKERS - 1), st.lists(st.integers(0, 5), max_size=4)))


@given(changes, st.lists(st.integers(0, 5), max_size=6, unique=True))
def test_it_agrees_with_a_set_for_each_worker(made: list[tuple[bool, int, list[int]]], blocks: list[int]) -> None:
    """Whatever was added and discarded, twice or without having been there."""
    holdings = Holdings(WORKERS)
    sets: list[set[int]] = [set() for _ in range(WORKERS)]
    for adds, worker, changed in made:
        if adds:
            holdings.add(worker, changed)
            sets[worker].update(changed)
        else:
            holdings.discard(worker, changed)
            sets[worker].difference_update(changed)
    expected = [next((i for i, block in enumerate(blocks) if block not in held), len(blocks)) for held in sets]

    assert expected == holdings.leading(blocks)
