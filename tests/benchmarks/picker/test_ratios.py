import math

import pytest

from benchmarks.picker.ratios import Ratio


def test_the_mean_is_geometric() -> None:
    assert pytest.approx(1.0) == Ratio.of([2.0, 0.5]).mean


def test_the_interval_is_that_of_students_distribution() -> None:
    """Three logarithms with mean 0 and deviation 0.1 have 4.303 * 0.1 / sqrt(3) = 0.2484 on each side."""
    ratio = Ratio.of([math.exp(-0.1), 1.0, math.exp(0.1)])

    assert [0.780, 1.282, 0.282] == pytest.approx([ratio.lowest, ratio.highest, ratio.uncertainty], abs=0.001)
    assert "1.000 (0.780 – 1.282)" == str(ratio)


def test_one_round_has_no_interval() -> None:
    ratio = Ratio.of([1.1])

    assert pytest.approx(1.1) == ratio.mean
    assert (0.0, math.inf, 1) == (ratio.lowest, ratio.highest, ratio.rounds)


@pytest.mark.parametrize("ratios", [[], [0.0]])
def test_a_ratio_needs_values_above_0(ratios: list[float]) -> None:
    with pytest.raises(ValueError):
        Ratio.of(ratios)
