"""Besides literal facts, random calls are compared with a dict."""

import random

import pytest

from cache_index.places import Places


def filled(blocks: int, *, first: int = 1000, run: int = 40) -> Places:
    """Hash *i* stands at *first* + *i*; told in runs, so that some are sorted in and some wait."""
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
    """At once, or when it is sorted in."""
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
