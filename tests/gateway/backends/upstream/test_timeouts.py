import pytest

from gateway.backends.upstream.timeouts import Timeouts


def test_a_timeout_of_zero_is_refused_by_name() -> None:
    """A timeout that is not above zero is a fault of the settings, and the message names the field."""
    with pytest.raises(ValueError, match="idle_s must be greater than zero, not 0"):
        Timeouts(idle_s=0)


def test_the_first_byte_may_be_unbounded() -> None:
    """None for the first byte leaves only the total time as its bound."""
    timeouts = Timeouts(first_byte_s=None)

    assert (5.0, None, 300.0, 3600.0) == (
        timeouts.connect_s,
        timeouts.first_byte_s,
        timeouts.idle_s,
        timeouts.total_s,
    )
