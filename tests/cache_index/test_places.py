"""Literal facts, and random calls compared with a dict."""

import random

import pytest

from cache_index.column import MAX_ROWS
from cache_index.places import MERGE_EVERY, PIECE, Places

MANY = 5 * MAX_ROWS
"""Blocks that take several columns."""


def filled(blocks: int, *, first: int = 1000, run: int = 40) -> Places:
    """Hash *i* stands at *first* + *i*; reported in runs, so that some are sorted in and some wait."""
    places = Places()
    for begin in range(0, blocks, run):
        places.put(list(range(begin, min(begin + run, blocks))), first + begin)
    return places


@pytest.mark.parametrize("blocks", [1, 15, 40, 1000, 1030, 5000])
@pytest.mark.parametrize("run", [1, 40])
def test_a_hash_leads_to_its_place(blocks: int, run: int) -> None:
    """Whether it came alone or in a run, and however many came after it."""
    places = filled(blocks, run=run)

    assert [1000 + i for i in range(blocks)] == [places.get(i) for i in range(blocks)]
    assert places.get(blocks) is None
    assert blocks == len(places)
    assert sorted(range(1000, 1000 + blocks)) == sorted(places.all().tolist())


def test_the_last_block_of_a_run_is_found_without_opening_it() -> None:
    """It is the parent of what comes next; opened, each block takes more memory."""
    places = filled(40)
    before = places.size_bytes

    assert 1039 == places.get(39)
    assert before == places.size_bytes
    assert 1005 == places.get(5)
    assert before < places.size_bytes


@pytest.mark.parametrize("blocks", [40, 5000])
def test_what_was_taken_out_is_not_there(blocks: int) -> None:
    """From a run that waits: its last block, the one before; and from what is sorted in."""
    places = filled(blocks)

    assert 1000 + blocks - 1 == places.pop(blocks - 1)
    assert 1000 + blocks - 2 == places.pop(blocks - 2)
    assert 1000 == places.pop(0)
    assert [None] * 3 == [places.pop(0), places.pop(blocks), places.get(0)]
    assert blocks - 3 == len(places) == len(places.all())


def test_what_was_taken_out_of_a_waiting_run_is_not_there() -> None:
    """The block is looked up before any other of its run is."""
    places = filled(40)

    assert 1007 == places.pop(7)
    assert places.get(7) is None
    assert 39 == len(places)


def test_memory_is_given_back() -> None:
    """When more is gone than is left, and when all is."""
    places = filled(5000)
    full = places.size_bytes
    for i in range(3000):
        places.pop(i)

    assert places.size_bytes < full * 2 / 3

    for i in range(3000, 5000):
        places.pop(i)

    assert (0, 0) == (len(places), places.size_bytes)


def test_the_oldest_are_those_with_the_lowest_places() -> None:
    """Those that wait come after all others; there may be fewer than are asked for."""
    places = filled(2000)
    places.pop(0)
    places.put([7000, 7001], 5)

    assert [1, 2, 3] == places.oldest(3)
    assert {*range(1, 2000), 7000, 7001} == set(places.oldest(2001))
    assert 2001 == len(places.oldest(5000))


@pytest.mark.parametrize("again", [[3], list(range(20))])
def test_a_hash_that_comes_again_loses_its_place(again: list[int]) -> None:
    """The former place is lost at once or when the block is sorted."""
    places = filled(2000)
    places.put(again, 5000)
    for i in range(60):
        places.put(list(range(10_000 + 40 * i, 10_040 + 40 * i)), 20_000 + 40 * i)

    assert sorted(1000 + i for i in again) == sorted(places.lost())
    assert [] == places.lost()
    assert [5000 + i for i in range(len(again))] == [places.get(i) for i in again]


def test_a_hash_may_come_again_before_it_is_sorted_in() -> None:
    """One of its places is lost, whichever."""
    places = Places()
    places.put([1, 2], 10)
    places.put([2], 20)

    assert [11] == places.lost()
    assert [10, 20] == [places.get(1), places.get(2)]


def is_merging(places: Places) -> bool:
    return places._sorted is not None


def test_many_blocks_are_in_several_columns() -> None:
    """Blocks are found at both ends of each column, until they are removed."""
    places = filled(MANY, run=1000)
    bounds = places._bounds

    assert len(bounds) >= 3
    for bound in bounds:
        assert [1000 + bound - 1, 1000 + bound] == [places.get(bound - 1), places.get(bound)]
        assert [1000 + bound - 1, 1000 + bound] == [places.pop(bound - 1), places.pop(bound)]
        assert [None, None] == [places.get(bound - 1), places.pop(bound)]
    assert MANY - 2 * len(bounds) == len(places) == len(places.all()) == len(places.oldest(MANY))


def test_one_column_is_merged_with_each_put() -> None:
    """No call takes long; blocks that are not merged yet can be found, removed and counted."""
    rng = random.Random(1)
    places = Places()
    hashes = [rng.getrandbits(64) for _ in range(MANY)]
    at, puts = 0, 0
    while at < MANY:
        pieces, merged = len(places._pieces), places._merged
        was_merging = places._sorted is not None
        places.put(hashes[at : at + MERGE_EVERY], 1 + at)
        at += MERGE_EVERY
        if was_merging and len(places._pieces) == pieces:
            puts += 1
            assert places._sorted is None or places._merged > merged
            assert [1 + at - 100, 1 + at - 1] == [places.get(hashes[at - 100]), places.get(hashes[at - 1])]
            assert [at // 2, at // 3] == [places.get(hashes[at // 2 - 1]), places.get(hashes[at // 3 - 1])]
            assert at == len(places) == len(places.all())
            assert [hashes[0]] == places.oldest(1)

    assert puts >= 3
    assert {*range(1, MANY + 1)} == set(places.all().tolist())


def test_single_blocks_are_merged_no_more_often_than_runs() -> None:
    """An engine may report its blocks one by one, and a merge takes half a millisecond."""
    rng = random.Random(9)
    places = Places()
    begun = 0
    while not is_merging(places):
        places.put([rng.getrandbits(64) for _ in range(1000)], 1 + 1000 * begun)
        begun += 1
    merged = places._merged
    for number in range(MERGE_EVERY - 1):
        places.put([rng.getrandbits(64)], 10**9 + number)

    assert merged == places._merged

    places.put([rng.getrandbits(64)], 2 * 10**9)

    assert not is_merging(places) or places._merged > merged


def test_what_is_taken_out_while_it_is_merged_is_gone() -> None:
    """From the columns, from what is merged already, and from what is not yet."""
    rng = random.Random(2)
    hashes = [rng.getrandbits(64) for _ in range(MANY)]
    places = Places()
    at = 0
    while not is_merging(places):
        places.put(hashes[at : at + 100], 1 + at)
        at += 100
    gone = rng.sample(range(at), at // 2)

    assert [1 + i for i in gone] == [places.pop(hashes[i]) for i in gone]
    assert [None] * len(gone) == [places.get(hashes[i]) for i in gone]

    while is_merging(places):
        places.put(hashes[at : at + 1], 1 + at)
        at += 1
    left = {*range(at)} - {*gone}

    assert {1 + i for i in left} == set(places.all().tolist())
    assert [1 + i for i in left] == [places.get(hashes[i]) for i in left]


def test_all_may_be_taken_out_while_some_is_merged() -> None:
    """Nothing is left then, and no memory in use."""
    rng = random.Random(3)
    hashes = [rng.getrandbits(64) for _ in range(MANY)]
    places = Places()
    at = 0
    while not is_merging(places):
        places.put(hashes[at : at + 100], 1 + at)
        at += 100
    for engine_hash in hashes[:at]:
        places.pop(engine_hash)

    assert (0, 0, []) == (len(places), places.size_bytes, places.all().tolist())

    places.put([7], 70)

    assert 70 == places.get(7)


def in_pieces(hashes: list[int]) -> Places:
    """All but 10,000 of *hashes* are in columns. The others wait in sorted pieces and runs."""
    places = Places()
    for begin in range(0, len(hashes) - 10_000, 1000):
        places.put(hashes[begin : begin + 1000], 1 + begin)
    while is_merging(places) or places._pieces:
        places.put([random.Random(len(places)).getrandbits(64)], 10**9 + len(places))
    for begin in range(len(hashes) - 10_000, len(hashes), 100):
        places.put(hashes[begin : begin + 100], 1 + begin)
    return places


def test_new_blocks_are_sorted_a_piece_at_a_time() -> None:
    """No call sorts more than a piece, and all blocks are found, removed and counted in every piece."""
    rng = random.Random(6)
    hashes = [rng.getrandbits(64) for _ in range(MANY)]
    places = in_pieces(hashes)
    before = len(places)
    some = rng.sample(range(MANY), 500)

    assert 2 == len(places._pieces)
    assert all(PIECE <= len(piece.hashes) < PIECE + 100 for piece in places._pieces)
    assert [1 + at for at in some] == [places.get(hashes[at]) for at in some]
    assert [1 + at for at in some] == [places.pop(hashes[at]) for at in some]
    assert [None] * 500 == [places.get(hashes[at]) for at in some]
    assert before - 500 == len(places) == len(places.all())


def test_a_block_that_is_not_known_opens_only_the_runs_after_the_last_piece() -> None:
    """An opened block takes more memory and more time."""
    rng = random.Random(7)
    places = in_pieces([rng.getrandbits(64) for _ in range(MANY)])
    waiting = len(places._run_hashes)

    assert 0 < waiting < PIECE
    assert places.get(rng.getrandbits(64)) is None
    assert (waiting, 0) == (len(places._new), len(places._run_hashes))


def test_the_last_place_counts_of_a_hash_in_several_pieces() -> None:
    """The former places are lost when the pieces are combined."""
    rng = random.Random(8)
    hashes = [rng.getrandbits(64) for _ in range(MANY)]
    places = in_pieces(hashes)
    first = MANY - 10_000
    places.put(hashes[first : first + 4500], 2 * 10**9)

    assert 3 == len(places._pieces)
    assert [2 * 10**9, 2 * 10**9 + 4499] == [places.get(hashes[first]), places.get(hashes[first + 4499])]

    lost: list[int] = []
    while places._pieces:
        places.put([rng.getrandbits(64) for _ in range(1000)], 3 * 10**9)
        lost += places.lost()

    assert list(range(1 + first, 1 + first + 4500)) == sorted(lost)
    assert [2 * 10**9, 2 * 10**9 + 4499] == [places.get(hashes[first]), places.get(hashes[first + 4499])]


def test_random_calls_do_what_a_dict_does() -> None:
    """Ten thousand hashes come, in runs of all lengths, and go."""
    rng = random.Random(1)
    places, expected = Places(), dict[int, int]()
    first = 1
    for _ in range(600):
        hashes = [rng.getrandbits(64) for _ in range(rng.choice([1, 1, 5, 16, 60]))]
        places.put(hashes, first)
        expected |= zip(hashes, range(first, first + len(hashes)), strict=True)
        first += len(hashes)
        for gone in rng.sample(sorted(expected), min(len(expected), rng.randint(0, 12))):
            assert expected.pop(gone) == places.pop(gone)
        sought = rng.choice([*hashes, rng.getrandbits(64)])
        assert expected.get(sought) == places.get(sought)
        assert len(expected) == len(places)

    assert expected == {engine_hash: places.get(engine_hash) for engine_hash in expected}
    assert sorted(expected.values()) == sorted(places.all().tolist())
    assert [] == places.lost()


def test_random_calls_do_what_a_dict_does_in_several_columns() -> None:
    """A hundred thousand hashes come and go, and some come again with another place."""
    rng = random.Random(4)
    places, expected = Places(), dict[int, int]()
    reported: list[int] = []
    first = 1
    for _ in range(800):
        hashes = [rng.getrandbits(64) for _ in range(rng.choice([1, 100, 300]))]
        some = rng.sample(reported, min(len(reported), 8))
        for gone in some[:6]:
            # Which place a hash leads to that came again is known when all is sorted in.
            assert (expected.pop(gone, None) is None) == (places.pop(gone) is None)
        hashes += [again for again in some[6:] if again not in expected]
        places.put(hashes, first)
        expected |= zip(hashes, range(first, first + len(hashes)), strict=True)
        reported += hashes
        first += len(hashes)
        assert len(expected) == len(places)

    assert expected == {engine_hash: places.get(engine_hash) for engine_hash in expected}
    assert sorted(expected.values()) == sorted(places.all().tolist())
    assert [] == places.lost()


def test_a_hash_that_comes_again_is_found_out_in_several_columns() -> None:
    """At the latest when it is merged into the column that has the other. One of its places is lost, one stays."""
    rng = random.Random(5)
    hashes = [rng.getrandbits(64) for _ in range(MANY)]
    places = Places()
    for begin in range(0, MANY, 1000):
        places.put(hashes[begin : begin + 1000], 1 + begin)
    again = hashes[::7]
    places.put(again, 10**9)
    lost: list[int] = []
    while len(lost) < len(again):
        places.put([rng.getrandbits(64) for _ in range(1000)], 2 * 10**9)
        lost += places.lost()
    left = [place for engine_hash in again if (place := places.get(engine_hash)) is not None]

    assert sorted([*range(1, MANY, 7), *range(10**9, 10**9 + len(again))]) == sorted([*lost, *left])
    assert list(range(10**9, 10**9 + 1000)) == left[:1000]


@pytest.mark.parametrize("count", [5, 100, MANY])
def test_a_hash_is_found_by_its_place(count: int) -> None:
    """Wherever it waits; no hash stands where nothing was put, or where it was taken from."""
    places = Places()
    places.put([1000 + number for number in range(count)], 1)
    places.pop(1002)

    assert [1000, None, 999 + count, None] == [places.hash_at(place) for place in (1, 3, count, count + 1)]
