import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_index.chain import U64, Words
from cache_index.column import MAX_ROWS, Column

ROWS = st.dictionaries(st.integers(0, 30), st.integers(1, 2**63), max_size=20)


def column(rows: dict[int, int]) -> Column:
    return Column(words(sorted(rows)), words(rows[engine_hash] for engine_hash in sorted(rows)))


def words(values: object) -> Words:
    return np.array(list(values), U64)  # type: ignore[call-overload]


def test_a_hash_leads_to_its_row() -> None:
    """A row is found if it has a place and is not before the given one."""
    some = column({3: 30, 5: 50, 2**64 - 1: 70})

    assert [None, 0, None, 1, 2] == [some.find(engine_hash, 0) for engine_hash in (0, 3, 4, 5, 2**64 - 1)]
    assert [None, 1] == [some.find(engine_hash, 1) for engine_hash in (3, 5)]
    assert 50 == some.take_out(1)
    assert some.find(5, 0) is None
    assert Column().find(5, 0) is None


def test_a_column_is_sparse_when_more_than_half_of_it_is_gone() -> None:
    """A short column is sparse once all its places are removed."""
    short, long = column({3: 30, 5: 50}), column(dict.fromkeys(range(4000), 7))
    short.take_out(0)
    for row in range(2000):
        long.take_out(row)

    assert [False, False] == [short.is_sparse, long.is_sparse]

    short.take_out(1)
    long.take_out(2000)

    assert [True, True] == [short.is_sparse, long.is_sparse]


@pytest.mark.parametrize(
    ("rows", "lengths"),
    [(0, [0]), (1, [1]), (MAX_ROWS, [MAX_ROWS]), (MAX_ROWS + 1, [MAX_ROWS // 2 + 1, MAX_ROWS // 2])],
)
def test_too_many_rows_are_several_columns(rows: int, lengths: list[int]) -> None:
    """The parts have about the same length and are in order."""
    hashes = np.arange(rows, dtype=U64)
    columns = Column.split((hashes, hashes + U64(1)))

    assert lengths == [len(one.hashes) for one in columns]
    assert hashes.tolist() == [engine_hash for one in columns for engine_hash in one.hashes]
    assert (hashes + U64(1)).tolist() == [place for one in columns for place in one.places]


@given(ROWS, ROWS, st.sets(st.integers(0, 30)))
def test_rows_are_merged_as_dicts_are(old: dict[int, int], new: dict[int, int], gone: set[int]) -> None:
    """For a hash in both, the new place counts and the old one is returned; removed places are in neither."""
    some = column(old)
    for row in [row for engine_hash in gone if (row := some.find(engine_hash, 0)) is not None]:
        some.take_out(row)
    left = {engine_hash: place for engine_hash, place in old.items() if engine_hash not in gone}
    (hashes, places), lost = some.merged(*column(new).kept())

    assert sorted((left | new).items()) == list(zip(hashes.tolist(), places.tolist(), strict=True))
    assert [left[engine_hash] for engine_hash in sorted(left.keys() & new)] == lost


def test_the_rows_of_a_part_are_those_that_have_a_place() -> None:
    """From one row up to another."""
    some = column({1: 10, 2: 20, 3: 30, 4: 40})
    some.take_out(2)

    assert [[2], [20]] == [rows.tolist() for rows in some.kept(1, 3)]
    assert [[2, 4], [20, 40]] == [rows.tolist() for rows in some.kept(1)]
