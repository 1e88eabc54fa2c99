import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.peers.routing.asking import Answer
from benchmarks.peers.routing.outcome import Effort, Outcome, percentile
from benchmarks.peers.routing.workers import Work

EFFORT = Effort(0.1, 0.2, 0.3)


def outcome(answers: list[Answer], work: list[Work], *, speed: float = 1.0) -> Outcome:
    return Outcome.of("any", answers, work, EFFORT, is_ours=False, speed=speed, took_s=9.0)


def answer(ttft_s: float, failure: str | None = None) -> Answer:
    return Answer(ttft_s, ttft_s + 1.0, 0.001, failure)


def test_times_are_those_of_the_workers() -> None:
    found = outcome([answer(0.1), answer(0.3)], [Work(2, 100, 0, 10)], speed=10.0)

    assert pytest.approx(2.0) == found.ttft_mean_s
    assert pytest.approx(3.0) == found.ttft_p99_s
    assert pytest.approx(13.0) == found.e2e_p50_s
    assert pytest.approx(0.01) == found.late_p99_s
    assert 9.0 == found.took_s


def test_hits_and_spread_are_as_the_workers_count() -> None:
    """The second has computed three times as much of prompts as the first."""
    found = outcome([answer(0.1)] * 4, [Work(3, 1000, 900, 10), Work(1, 500, 200, 20)])

    assert pytest.approx(1100 / 1500) == found.hit_rate
    assert pytest.approx(1.5) == found.imbalance
    assert 0.75 == found.busiest_share
    assert 30 == found.output_tokens


def test_a_failure_counts_as_one_and_gives_no_time() -> None:
    found = outcome([answer(0.5), answer(0.0, "503"), answer(0.0, "503"), answer(0.0, "cut")], [Work(1, 10, 0, 1)])

    assert {"503": 2, "cut": 1} == found.failures
    assert (4, 0.5) == (found.requests, found.ttft_mean_s)


def test_a_router_that_answers_no_one_is_infinitely_slow() -> None:
    found = outcome([answer(0.0, "503")], [Work(1, 10, 0, 1)])

    assert (math.inf, math.inf) == (found.ttft_mean_s, found.ttft_p90_s)


def test_a_router_that_sends_nothing_to_a_worker_has_no_outcome() -> None:
    with pytest.raises(ValueError, match="through any"):
        outcome([answer(0.1)], [Work(0, 0, 0, 0)])
    with pytest.raises(ValueError, match="through any"):
        outcome([], [Work(1, 10, 0, 1)])


def test_workers_that_computed_nothing_are_in_balance() -> None:
    """All of it was cached, which no engine does: it computes a token at least."""
    assert 1.0 == outcome([answer(0.1)], [Work(1, 10, 10, 1), Work(1, 10, 10, 1)]).imbalance


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50), st.sampled_from((50, 90, 99)))
def test_as_many_are_below_a_percentile_as_it_says(values: list[float], percent: int) -> None:
    ordered = sorted(values)
    found = percentile(ordered, percent)

    assert found in values
    assert sum(value < found for value in values) <= len(values) * percent / 100
    assert sum(value <= found for value in values) >= min(len(values), len(values) * percent / 100)


def test_cores_are_those_of_all_programs() -> None:
    assert pytest.approx(0.6) == EFFORT.cores
