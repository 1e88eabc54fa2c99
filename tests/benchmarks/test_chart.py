from benchmarks.chart import BarChart, LineChart


def test_charts_are_equal_when_they_show_the_same() -> None:
    """They are values: a chart that was read back is the one that was stored."""
    assert LineChart("t", "x", "y", {"a": [(0.0, 1.0)]}) == LineChart("t", "x", "y", {"a": [(0.0, 1.0)]})
    assert BarChart("t", "y", ["g"], {"a": [1.0]}) != BarChart("t", "y", ["g"], {"a": [None]})
