"""Weights hold, callers keep their variant, and a changed weight moves no more than it must."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.variants import Variants

CANARY = {"stable": 95.0, "canary": 5.0}
WEIGHTS = st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 100.0), min_size=1)


def first_of(variants: Variants, callers: range) -> dict[str, str]:
    return {f"caller {i}": variants.order(f"caller {i}")[0] for i in callers}


def test_a_canary_gets_its_share_of_10_000_requests_within_1_percent() -> None:
    """Each variant gets its share when requests are dealt: 500 of them, within 5."""
    variants = Variants(CANARY, key="chat")
    got = Counter(variants.deal()[0] for _ in range(10_000))

    assert got["canary"] == pytest.approx(500, abs=5)


def test_a_canary_gets_its_share_of_10_000_callers_within_1_percent() -> None:
    """Each variant gets its share of callers. A hash is as even as chance: 22 callers standard deviation."""
    got = Counter(first_of(Variants(CANARY, key="chat"), range(10_000)).values())

    assert got["canary"] == pytest.approx(500, abs=100)


@given(WEIGHTS, st.floats(0.0, 0.999), st.integers(100, 3_000))
def test_dealt_requests_stay_close_to_the_shares(weights: dict[str, float], start: float, count: int) -> None:
    """However many they are, each variant is off by a few requests only: the sequence has a low discrepancy."""
    variants = Variants(weights, key="x", start=start)
    got = Counter(variants.deal()[0] for _ in range(count))

    for name, share in variants.shares.items():
        assert got[name] == pytest.approx(count * share, abs=3.0 + math.log(count))


@given(st.integers(2, 7), st.floats(0.0, 0.999))
def test_no_rhythm_of_a_caller_meets_always_the_same_variant(period: int, start: float) -> None:
    """Every second, third ... request meets both halves of an A/B test as well."""
    variants = Variants({"a": 1.0, "b": 1.0}, key="x", start=start)
    dealt = [variants.deal()[0] for _ in range(1000 * period)]

    assert dealt[::period].count("a") == pytest.approx(500, abs=20)


@given(WEIGHTS, st.text(), st.text())
def test_a_caller_keeps_its_variant(weights: dict[str, float], key: str, caller: str) -> None:
    """This holds in another process and after any number of deals: nothing is stored."""
    one, other = Variants(weights, key=key), Variants(weights, key=key, start=0.7)
    other.deal()

    assert one.order(caller) == other.order(caller)
    assert set(weights) == set(one.order(caller))


def test_a_variant_is_the_same_in_every_release() -> None:
    """Values that were computed once: a change of the hash would deal all callers again."""
    variants = Variants({"a": 1.0, "b": 1.0, "c": 2.0}, key="chat")

    assert [["b", "a", "c"], ["a", "b", "c"], ["b", "c", "a"]] == [
        variants.order(caller) for caller in ("ann", "bob", "")
    ]


@given(WEIGHTS, st.sampled_from("abcdef"), st.floats(0.1, 100.0))
def test_a_changed_weight_moves_callers_only_to_it_or_away_from_it(
    weights: dict[str, float], name: str, weight: float
) -> None:
    """No one moves between two variants whose weights stay."""
    before = first_of(Variants(weights, key="x"), range(200))
    after = first_of(Variants(weights | {name: weight}, key="x"), range(200))

    assert [] == [who for who, had in before.items() if had != after[who] and name not in {had, after[who]}]
    if weight >= weights.get(name, 0.0):
        assert [] == [who for who, had in before.items() if had == name and after[who] != name]


def test_a_canary_that_is_raised_keeps_those_that_it_has() -> None:
    """From 5 to 10 of 100: 5 of 100 callers move, and all of them to the canary."""
    before = first_of(Variants(CANARY, key="chat"), range(10_000))
    after = first_of(Variants({"stable": 90.0, "canary": 10.0}, key="chat"), range(10_000))
    moved = [(had, after[who]) for who, had in before.items() if had != after[who]]

    assert {("stable", "canary")} == set(moved)
    assert len(moved) == pytest.approx(500, abs=100)


def test_another_key_deals_callers_again() -> None:
    """Two experiments are independent of each other."""
    one = first_of(Variants({"a": 1.0, "b": 1.0}, key="one"), range(2_000))
    other = first_of(Variants({"a": 1.0, "b": 1.0}, key="other"), range(2_000))

    assert sum(one[who] == other[who] for who in one) == pytest.approx(1000, abs=120)


@given(WEIGHTS, st.text())
def test_who_loses_its_variant_gets_the_next_one(weights: dict[str, float], caller: str) -> None:
    """The order says who takes over: it is the caller's variant where the first is not there at all."""
    order = Variants(weights, key="x").order(caller)
    if len(order) > 1:
        rest = {name: weight for name, weight in weights.items() if name != order[0]}
        assert order[1:] == Variants(rest, key="x").order(caller)


def test_what_is_peeked_at_is_dealt_next() -> None:
    variants = Variants({"a": 2.0, "b": 1.0, "c": 3.0}, key="x", start=0.4)

    for _ in range(50):
        assert variants.peek() == variants.deal()


def test_a_weight_of_0_gets_nothing() -> None:
    """A weight of 0 switches it off, even if the others cannot answer."""
    variants = Variants({"a": 1.0, "b": 0.0}, key="x")

    assert ["a"] == variants.order("ann")
    assert ["a"] == variants.deal()
    assert {"a": 1.0} == variants.shares


def test_weights_that_are_all_0_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one weight must be above 0"):
        Variants({"a": 0.0}, key="x")


def test_other_weights_keep_the_key_and_the_place_in_the_sequence() -> None:
    variants = Variants({"a": 1.0, "b": 1.0}, key="chat")
    for _ in range(7):
        variants.deal()
    again = variants.reweighed({"a": 1.0, "b": 1.0})

    assert {"a": 1.0, "b": 1.0} == variants.weights
    assert first_of(variants, range(100)) == first_of(again, range(100))
    assert [variants.deal() for _ in range(20)] == [again.deal() for _ in range(20)]
    with pytest.raises(ValueError, match="above 0"):
        variants.reweighed({"a": 0.0})
