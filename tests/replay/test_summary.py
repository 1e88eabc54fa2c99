import pytest

from replay.run import Answer
from replay.summary import Summary


def test_the_first_tenth_is_not_counted() -> None:
    found = [Answer(arrival, 0, float(arrival), 0.0, 100, 10 * arrival) for arrival in reversed(range(10))]

    assert Summary(9, 0.5, 5.0, 5.0, 9.0, 9.0, 1.0, 0.0) == Summary.of(found, 1)


def test_the_only_request_counts() -> None:
    """There would be no figures without it."""
    assert 1 == Summary.of([Answer(0, 0, 1.0, 0.0, 100, 0)], 1).requests


def test_imbalance_is_what_the_busiest_worker_computed() -> None:
    """300 tokens of 400 on one of four workers, though its prompts were no longer than the other's."""
    found = [Answer(0, 0, 1.0, 0.0, 300, 0), Answer(1, 1, 1.0, 0.0, 300, 200), Answer(2, 0, 1.0, 0.0, 300, 0)]

    # The first tenth of three is the first of them.
    assert pytest.approx(300 / 400 * 4) == Summary.of(found, 4).imbalance


def test_waits_of_first_requests_count_from_the_beginning() -> None:
    """Two sessions that begin, one of them with the request that warms up; a third request that goes on."""
    found = [
        Answer(0, 0, 9.0, 8.0, 100, 0, begins_session=True),
        Answer(1, 0, 9.0, 2.0, 100, 0, begins_session=True),
        Answer(2, 0, 9.0, 3.0, 100, 0),
    ]
    summary = Summary.of(found, 1)

    assert (5.0, 8.0) == (summary.first_wait_mean_s, summary.first_wait_max_s)
    assert 3.0 == summary.wait_max_s


def test_without_sessions_no_one_is_the_first() -> None:
    """None, and not 0."""
    summary = Summary.of([Answer(0, 0, 1.0, 0.0, 100, 0), Answer(1, 0, 1.0, 0.0, 100, 0)], 1)

    assert (None, None) == (summary.first_wait_mean_s, summary.first_wait_max_s)
