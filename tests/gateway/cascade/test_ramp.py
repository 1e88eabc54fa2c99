import pytest

from gateway.cascade.ramp import Ramp


def test_it_begins_at_a_tenth_and_doubles_while_it_is_used() -> None:
    ramp = Ramp(60.0)
    shares = []
    for minute in range(6):
        ramp.asked(minute * 60.0)
        shares.append(ramp.share(minute * 60.0))

    assert [0.1, 0.2, 0.4, 0.8, 1.0, 1.0] == pytest.approx(shares)


def test_between_two_uses_it_grows_as_well() -> None:
    ramp = Ramp(60.0)
    ramp.asked(0.0)

    assert 0.1 * 2**0.5 == pytest.approx(ramp.share(30.0))


def test_a_long_pause_takes_it_back_step_by_step() -> None:
    """As fast as it grew, once nobody has asked for as long as it takes to double."""
    ramp = Ramp(60.0)
    for second in range(301):
        ramp.asked(float(second))

    assert 1.0 == ramp.share(360.0)
    assert 0.5 == pytest.approx(ramp.share(420.0))
    assert 0.25 == pytest.approx(ramp.share(480.0))
    assert 0.1 == ramp.share(3600.0)

    ramp.asked(3600.0)
    assert 0.2 == pytest.approx(ramp.share(3660.0))


def test_before_anybody_asked_it_is_at_its_least() -> None:
    assert 0.1 == Ramp(60.0).share(1e6)


def test_without_a_time_there_is_no_ramp() -> None:
    ramp = Ramp(None)
    assert 1.0 == ramp.share(0.0)

    ramp.take(60.0)
    assert 0.1 == ramp.share(0.0)
