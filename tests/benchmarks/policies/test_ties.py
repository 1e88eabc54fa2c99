import random

from benchmarks.policies.ties import lowest


def test_the_lowest_wins() -> None:
    """Its place, counted from 0."""
    assert 2 == lowest([3.0, 2.0, 1.0, 4.0], random.Random(0))


def test_equal_scores_share() -> None:
    rng = random.Random(0)
    chosen = [lowest([2.0, 1.0, 1.0], rng) for _ in range(400)]

    assert {1, 2} == set(chosen)
    assert 150 <= chosen.count(1) <= 250
