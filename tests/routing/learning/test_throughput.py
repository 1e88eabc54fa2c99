"""The throughput of a fleet while requests wait for it."""

import pytest

from routing.learning.throughput import Throughput


def watched() -> Throughput:
    throughput = Throughput()
    throughput.begin()
    return throughput


def test_what_was_sent_before_shows_nothing_of_the_fleet() -> None:
    """A small request waited for 3 s for work that no one saw being sent: what it cost is not what was done."""
    throughput = watched()
    throughput.sent(0.05, 3.0)

    assert (3.0, 0.0) == (throughput.per_s(3.0), throughput.evidence)


def test_little_that_was_seen_changes_little() -> None:
    """A twentieth of a second of work in one second is a hundredth of enough: 1 - 0.95 / 100."""
    throughput = watched()
    throughput.sent(0.05, 3.0)
    throughput.sent(9.0, 4.0)

    assert 0.9905 == pytest.approx(throughput.per_s(1.0))
    assert 0.01 == pytest.approx(throughput.evidence)


def test_half_of_enough_counts_half() -> None:
    """Twice as much as is believed, for half of the time that is needed."""
    throughput = watched()
    throughput.sent(10.0, 0.0)
    throughput.sent(10.0, 2.5)

    assert (3.0, 0.5) == (throughput.per_s(2.0), throughput.evidence)


def test_work_over_time_is_measured() -> None:
    """Two seconds of work in each second, whatever was believed."""
    throughput = watched()
    for second in range(11):
        throughput.sent(2.0, float(second))

    assert 2.0 == pytest.approx(throughput.per_s(3.0))
    assert 1.0 == throughput.evidence


def test_what_is_sent_in_one_moment_is_done_together() -> None:
    """To three workers, two seconds of work each."""
    throughput = watched()
    for second in (0.0, 2.0, 4.0, 6.0, 8.0):
        for _ in range(3):
            throughput.sent(2.0, second)

    assert 3.0 == pytest.approx(throughput.per_s(1.0))


def test_no_less_than_a_tenth_of_what_is_believed_is_predicted() -> None:
    """An engine stood still for a hundred seconds."""
    throughput = watched()
    throughput.sent(5.0, 0.0)
    throughput.sent(5.0, 100.0)

    assert 0.3 == pytest.approx(throughput.per_s(3.0))


def test_time_in_which_no_one_waits_does_not_count() -> None:
    """Work that is done in it, or sent before it, does not count either."""
    throughput = watched()
    throughput.sent(10.0, 0.0)
    throughput.sent(70.0, 5.0)
    throughput.end()
    throughput.sent(500.0, 50.0)
    throughput.begin()
    throughput.sent(10.0, 100.0)
    throughput.sent(10.0, 105.0)

    assert 2.0 == pytest.approx(throughput.per_s(3.0))


def test_watching_goes_on() -> None:
    """A repeated call changes nothing."""
    throughput = watched()
    throughput.sent(10.0, 0.0)
    throughput.begin()
    throughput.sent(10.0, 5.0)

    assert 2.0 == throughput.per_s(3.0)


def test_what_is_long_ago_is_forgotten() -> None:
    """A fleet that got faster is soon known to be."""
    throughput = watched()
    for second in range(101):
        throughput.sent(1.0, float(second))
    for second in range(101, 201):
        throughput.sent(5.0, float(second))

    assert 5.0 == pytest.approx(throughput.per_s(3.0), rel=0.05)
