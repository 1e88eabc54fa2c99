import pytest

from gateway.backends.fallbacks.slow_start import SlowStart


def test_it_begins_at_a_tenth_and_doubles_while_it_is_used() -> None:
    slow_start = SlowStart(60.0)
    shares = []
    for minute in range(6):
        slow_start.asked(minute * 60.0)
        shares.append(slow_start.share(minute * 60.0))

    assert [0.1, 0.2, 0.4, 0.8, 1.0, 1.0] == pytest.approx(shares)


def test_between_two_uses_it_grows_as_well() -> None:
    slow_start = SlowStart(60.0)
    slow_start.asked(0.0)

    assert 0.1 * 2**0.5 == pytest.approx(slow_start.share(30.0))


def test_a_long_pause_takes_it_back_step_by_step() -> None:
    slow_start = SlowStart(60.0)
    for second in range(301):
        slow_start.asked(float(second))

    assert 1.0 == slow_start.share(360.0)
    assert 0.5 == pytest.approx(slow_start.share(420.0))
    assert 0.25 == pytest.approx(slow_start.share(480.0))
    assert 0.1 == slow_start.share(3600.0)

    slow_start.asked(3600.0)
    assert 0.2 == pytest.approx(slow_start.share(3660.0))


def test_before_anybody_asked_it_is_at_its_least() -> None:
    assert 0.1 == SlowStart(60.0).share(1e6)


def test_without_a_time_there_is_no_ramp() -> None:
    slow_start = SlowStart(None)
    assert 1.0 == slow_start.share(0.0)

    slow_start.set_doubling_s(60.0)
    assert 0.1 == slow_start.share(0.0)
