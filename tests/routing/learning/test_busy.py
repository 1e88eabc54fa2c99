import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.learning.busy import BusyShare


def test_nothing_is_busy_to_begin_with() -> None:
    """No time has passed."""
    assert 0.0 == BusyShare(5.0).observe(5.0, busy=True)


def test_a_busy_memory_makes_63_percent() -> None:
    """One memory of 30 seconds leaves 1/e of what was before."""
    busy = BusyShare(0.0)

    assert pytest.approx(0.632, abs=0.001) == busy.observe(30.0, busy=True)
    assert pytest.approx(0.233, abs=0.001) == busy.observe(60.0, busy=False)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_it_settles_on_the_share_of_busy_time(share: float) -> None:
    """A part of every tenth of a second is busy, for five minutes."""
    busy = BusyShare(0.0)
    for i in range(3000):
        busy.observe(i / 10 + share / 10, busy=True)
        busy.observe((i + 1) / 10, busy=False)

    assert pytest.approx(share, abs=0.002) == busy.observe(300.0, busy=False)


@given(st.lists(st.tuples(st.floats(0.0, 1e6), st.booleans()), max_size=50))
@settings(deadline=None)
def test_it_is_a_share_after_any_observations(steps: list[tuple[float, bool]]) -> None:
    """Never below 0 and never above 1."""
    busy = BusyShare(0.0)
    now = 0.0
    for pause_s, is_busy in steps:
        now += pause_s

        assert 0.0 <= busy.observe(now, busy=is_busy) <= 1.0


def test_readings_in_between_change_nothing() -> None:
    """Ten short steps come to the same as one long one."""
    one, ten = BusyShare(0.0), BusyShare(0.0)
    for i in range(1, 10):
        ten.observe(float(i), busy=True)

    assert pytest.approx(one.observe(10.0, busy=True)) == ten.observe(10.0, busy=True)
