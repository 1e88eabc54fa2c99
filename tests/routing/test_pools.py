from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.candidate import Candidate
from routing.pools import reach
from tests.routing.examples import a_candidate


def names(candidates: Sequence[Candidate]) -> str:
    return "".join(candidate.worker for candidate in candidates)


def near_and_far(tiers: dict[str, int], waits_s: dict[str, float], longest_s: float = 5.0) -> tuple[str, str]:
    """Workers by name, each with as much to do as a request would wait there."""
    candidates = [a_candidate(name, backlog_s=waits_s.get(name, 0.0)) for name in tiers]
    found = reach(candidates, list(tiers.values()), [waits_s.get(name, 0.0) for name in tiers], longest_s)
    return names(found.near), names(found.far)


OWN_AND_RENTED = {"a": 0, "b": 0, "c": 1, "d": 2}


def test_the_first_pool_is_near() -> None:
    """The others are there for when it fails."""
    assert ("ab", "cd") == near_and_far(OWN_AND_RENTED, {})


def test_one_worker_that_has_time_is_enough() -> None:
    """The next pool joins when all before it have too much to do."""
    assert ("ab", "cd") == near_and_far(OWN_AND_RENTED, {"a": 9.0, "b": 5.0})
    assert ("abc", "d") == near_and_far(OWN_AND_RENTED, {"a": 9.0, "b": 5.1})


def test_pools_join_one_by_one() -> None:
    """The last where all others are too busy; then it does not matter how busy it is."""
    assert ("abcd", "") == near_and_far(OWN_AND_RENTED, {"a": 9.0, "b": 9.0, "c": 9.0, "d": 99.0})


def test_a_pool_without_workers_is_passed_over() -> None:
    """The lowest tier that there is comes first, whatever its number."""
    assert ("cd", "e") == near_and_far({"c": 3, "d": 3, "e": 7}, {})


def test_reserves_stand_in_the_order_of_their_pools() -> None:
    """Within a pool, workers that warm up come last, and the least loaded first."""
    candidates = [
        a_candidate("a"),
        a_candidate("z", pending=1),
        a_candidate("b", backlog_s=2.0),
        a_candidate("c", backlog_s=1.0),
        a_candidate("d", admits=False),
        a_candidate("e"),
    ]

    assert "ecbdz" == names(reach(candidates, [0, 2, 1, 1, 1, 1], [0.0] * 6, 5.0).far)


def test_without_candidates_none_is_near_or_far() -> None:
    """There is nothing to choose from."""
    assert ("", "") == near_and_far({}, {})


@given(
    workers=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0, 5.0, 9.0])), min_size=1, max_size=8),
    longest_s=st.sampled_from([0.0, 1.0, 6.0]),
)
def test_every_candidate_is_near_or_far(workers: list[tuple[int, float]], longest_s: float) -> None:
    """Each candidate is there once. Near pools come before far ones, and a pool is near only if it has to be."""
    named = {chr(ord("a") + place): each for place, each in enumerate(workers)}
    tiers = {name: tier for name, (tier, _) in named.items()}
    near, far = near_and_far(tiers, {name: wait_s for name, (_, wait_s) in named.items()}, longest_s)
    reached = max(tiers[name] for name in near)

    assert sorted(named) == sorted(near + far)
    assert all(tiers[name] > reached for name in far)
    assert all(wait_s > longest_s for tier, wait_s in workers if tier < reached)
    assert not far or any(wait_s <= longest_s for tier, wait_s in workers if tier == reached)


@pytest.mark.parametrize("longest_s", [0.0, 5.0])
def test_of_one_pool_all_are_near(longest_s: float) -> None:
    """However busy."""
    assert ("ab", "") == near_and_far({"a": 0, "b": 0}, {"a": 9.0, "b": 9.0}, longest_s)
