"""Chances of reuse, in hand-computed cases and compared with the same sum in fractions."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_index.reuse import Reuse

BLOCKS = st.dictionaries(st.integers(0, 7), st.integers(1, 50))
"""Ages by the exponent of a power of two."""


def learned(*, asked: dict[int, int], evicted: dict[int, int]) -> Reuse:
    """Both are blocks by age."""
    reuse = Reuse()
    for age, blocks in asked.items():
        reuse.asked(age, blocks)
    for age, blocks in evicted.items():
        reuse.evicted(age, blocks)
    reuse.learn()
    return reuse


def test_nothing_is_likely_before_anything_is_learned() -> None:
    """Evidence counts from the next `learn` on."""
    reuse = Reuse()
    reuse.asked(4, 10)

    assert 0.0 == reuse.chance(4)


def test_the_chance_is_the_share_that_is_asked_for_again() -> None:
    """40 blocks reach the age of 4 uses; 30 are used again then, and the others never."""
    reuse = learned(asked={4: 30}, evicted={8: 10})

    assert 0.75 == pytest.approx(reuse.chance(4))
    assert 0.75 == pytest.approx(reuse.chance(1))
    assert 0.0 == reuse.chance(8)


def test_what_was_evicted_may_have_been_asked_for_later() -> None:
    """The 20 blocks evicted at 4 say nothing about 8, where half of the others are used again. At 2, 60 of 100 are."""
    reuse = learned(asked={2: 60, 8: 10}, evicted={4: 20, 16: 10})

    assert 0.5 == pytest.approx(reuse.chance(8))
    assert 0.5 == pytest.approx(reuse.chance(4))
    assert 0.8 == pytest.approx(reuse.chance(2))
    assert 0.0 == reuse.chance(16)


def test_what_remains_may_still_be_asked_for() -> None:
    """100 blocks reached the age of 4 uses: 25 were used again and 75 remain. Without the 75, all were used again."""
    reuse, other = Reuse(), Reuse()
    for each in (reuse, other):
        each.asked(4, 25)
    reuse.learn({8: 75})
    other.learn()

    assert 0.25 == pytest.approx(reuse.chance(4))
    assert 1.0 == other.chance(4)


def test_what_remains_counts_once() -> None:
    """The same 75 blocks remain until the next update, in which 25 more reached the age and were used again."""
    reuse = Reuse()
    reuse.asked(4, 25)
    reuse.learn({8: 75})
    reuse.asked(4, 25)
    reuse.learn({16: 75})

    assert (25 * 0.95 + 25) / (100 * 0.95 + 25) == pytest.approx(reuse.chance(4))


def test_blocks_that_vanish_never_make_a_chance_above_one() -> None:
    """75 blocks remained, and then none, although nothing was used or evicted in between."""
    reuse = Reuse()
    reuse.learn({8: 75})
    reuse.asked(4, 10)
    reuse.learn({})

    assert 1.0 == reuse.chance(4)


@pytest.mark.parametrize(("age", "until"), [(1, 1), (2, 2), (3, 3), (4, 5), (6, 7), (8, 11), (12, 15), (96, 127)])
def test_ages_of_half_an_octave_are_one(age: int, until: int) -> None:
    """The chance is the same in all of it, and gone behind it."""
    reuse = learned(asked={age: 1}, evicted={age: 1})

    assert [0.5, 0.5, 0.0] == [reuse.chance(age), reuse.chance(until), reuse.chance(until + 1)]
    assert 0.5 == reuse.chance(0)


def test_no_age_is_too_high() -> None:
    """Those beyond all places are one."""
    reuse = learned(asked={2**70: 1}, evicted={2**80: 3})

    assert 0.25 == reuse.chance(2**75)


def test_habits_change() -> None:
    """All blocks were used again, and then none: an hour later the chance is almost 0."""
    reuse = learned(asked={4: 100}, evicted={})
    assert 1.0 == reuse.chance(4)
    chances = []
    for _ in range(100):
        reuse.evicted(4, 10)
        reuse.learn()
        chances.append(reuse.chance(4))

    assert sorted(chances, reverse=True) == chances
    assert 0.95 * 100 / (0.95 * 100 + 10) == pytest.approx(chances[0])
    assert chances[-1] < 0.01


def test_learning_nothing_new_changes_nothing() -> None:
    """Old blocks count less, all of them alike."""
    reuse = learned(asked={4: 30}, evicted={8: 10})
    reuse.learn()

    assert 0.75 == pytest.approx(reuse.chance(4))


@given(BLOCKS, BLOCKS)
def test_it_is_the_estimate_of_kaplan_and_meier(asked: dict[int, int], evicted: dict[int, int]) -> None:
    """1 less the product, over all ages from here on, of the shares that are not asked for at that age."""
    reuse = learned(
        asked={2**exponent: blocks for exponent, blocks in asked.items()},
        evicted={2**exponent: blocks for exponent, blocks in evicted.items()},
    )
    for age in range(8):
        survives = Fraction(1)
        for later in range(age, 8):
            lain = sum(blocks for at, blocks in (*asked.items(), *evicted.items()) if at >= later)
            survives *= 1 - Fraction(asked.get(later, 0), max(1, lain))

        assert float(1 - survives) == pytest.approx(reuse.chance(2**age))


def test_the_age_below_which_a_share_of_the_blocks_was_used_again() -> None:
    """100 blocks at age 1, 80 at age 4 and 20 at age 100, whose class ends at 127."""
    reuse = Reuse()
    for age, blocks in ((1, 100), (4, 80), (100, 20)):
        reuse.asked(age, blocks)

    assert [1, 1, 5, 5, 127] == [reuse.age_of(share) for share in (0.1, 0.5, 0.51, 0.9, 1.0)]


def test_without_reuse_there_is_no_age() -> None:
    reuse = Reuse()
    reuse.evicted(4, 10)

    assert None is reuse.age_of(0.5)


@pytest.mark.parametrize(("age", "until"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 5), (6, 7), (8, 11), (12, 15)])
def test_the_highest_age_of_a_class_is_returned(age: int, until: int) -> None:
    reuse = Reuse()
    reuse.asked(age, 1)

    assert until == reuse.age_of(0.5)
