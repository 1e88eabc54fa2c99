"""Facts about charts."""

import pytest

from gateway.console.charts import _top, chart
from gateway.console.formats import rate, seconds


def test_a_line_goes_from_left_to_right_and_upwards() -> None:
    drawn = chart("Requests", ["13:00", "13:01", "13:02"], {"answered": [0.0, 50.0, 100.0]}, rate)

    assert "M0.0 118.0L300.0 60.0L600.0 2.0" == drawn.lines[0].path
    assert ("100/s", "13:00", "13:02", "100/s") == (drawn.top, drawn.begins, drawn.ends, drawn.lines[0].latest)
    expected = "Requests from 13:00 to 13:02 UTC: answered 100/s now, between 0/s and 100/s."
    assert expected == drawn.description


def test_missing_values_leave_gaps() -> None:
    drawn = chart("TTFT", ["a", "b", "c", "d", "e"], {"median": [1.0, None, 1.0, 1.0, None]}, seconds)

    assert "M0.0 2.0h1.5M300.0 2.0L450.0 2.0" == drawn.lines[0].path
    assert "–" == drawn.lines[0].latest


def test_a_chart_without_values_is_empty() -> None:
    assert chart("TTFT", [], {"median": []}, seconds).is_empty
    assert chart("TTFT", ["a"], {"median": [None]}, seconds).is_empty


@pytest.mark.parametrize(
    ("highest", "top"),
    [
        (0, 1),
        (1, 1),
        (1.1, 1.5),
        (7, 8),
        (9.5, 10),
        (12, 15),
        (99, 100),
        (101, 150),
        (0.5, 0.5),
        (0.034, 0.04),
        (1e6, 1e6),
    ],
)
def test_the_upper_edge_is_a_round_number(highest: float, top: float) -> None:
    assert pytest.approx(top) == _top(highest)
