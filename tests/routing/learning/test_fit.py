import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.learning.fit import LinearFit, Sample

PRIOR = (Sample(0.0, 1.0), Sample(10.0, 3.0))


def test_the_prior_speaks_before_any_sample() -> None:
    """A line through two points."""
    fit = LinearFit(*PRIOR)

    assert pytest.approx(1.0) == fit.intercept
    assert pytest.approx(0.2) == fit.slope
    assert pytest.approx(5.0) == fit.predict(20.0)


def test_samples_on_the_prior_line_change_nothing() -> None:
    """They agree."""
    fit = LinearFit(*PRIOR)
    for x in (1.0, 5.0, 100.0):
        fit.learn(x, 1.0 + 0.2 * x)

    assert pytest.approx(1.0) == fit.intercept
    assert pytest.approx(0.2) == fit.slope


def test_samples_outweigh_the_prior() -> None:
    """A hundred samples of y = 2 + x/2, while the prior said 1 + x/5."""
    fit = LinearFit(*PRIOR)
    for i in range(100):
        x = 10.0 * (i % 11)
        fit.learn(x, 2.0 + 0.5 * x)

    assert pytest.approx(0.5, rel=0.02) == fit.slope
    assert pytest.approx(2.0, abs=0.5) == fit.intercept


def test_recent_samples_outweigh_earlier_ones() -> None:
    """The slope follows from 1 to 2 within a hundred samples."""
    fit = LinearFit(*PRIOR)
    for slope in (1.0, 2.0):
        for i in range(100):
            fit.learn(float(i % 20), slope * (i % 20))

    assert pytest.approx(2.0, rel=0.1) == fit.slope


def test_the_prior_holds_the_slope_where_all_samples_have_the_same_x() -> None:
    """Samples at 10 alone move the line up there and say nothing of its slope; they never divide by zero."""
    fit = LinearFit(Sample(0.0, 1.0), Sample(20.0, 5.0))
    for _ in range(1000):
        fit.learn(10.0, 3.0)

    assert pytest.approx(0.2) == fit.slope
    assert pytest.approx(3.0) == fit.predict(10.0)


def test_no_slope_falls() -> None:
    """Samples that take less time for more tokens make a level line through their mean."""
    fit = LinearFit(Sample(0.0, 1.0, 0.001), Sample(10.0, 1.0, 0.001))
    for _ in range(100):
        fit.learn(0.0, 2.0)
        fit.learn(10.0, 1.0)

    assert 0.0 == fit.slope
    assert pytest.approx(1.5, rel=0.02) == fit.intercept


def test_no_intercept_is_negative() -> None:
    """A line that would cross zero to the right of the origin begins at zero."""
    fit = LinearFit(Sample(0.0, 0.0, 0.001), Sample(10.0, 10.0, 0.001))
    for _ in range(100):
        fit.learn(10.0, 0.0)
        fit.learn(20.0, 10.0)

    assert 0.0 == fit.intercept
    assert pytest.approx(200 / 500, rel=0.02) == fit.slope


@given(st.lists(st.tuples(st.floats(0.0, 200_000.0), st.floats(0.0, 1000.0)), max_size=60))
@settings(deadline=None)
def test_predictions_are_finite_and_never_fall(samples: list[tuple[float, float]]) -> None:
    """Whatever is learned, more tokens never take less time, and no time is negative."""
    fit = LinearFit(Sample(0.0, 0.01), Sample(4096.0, 2.0, 0.2))
    for x, y in samples:
        fit.learn(x, y)

        assert 0.0 <= fit.predict(0.0) <= fit.predict(1000.0) <= fit.predict(200_000.0) < float("inf")
