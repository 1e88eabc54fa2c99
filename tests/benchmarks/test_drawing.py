import xml.etree.ElementTree as ET

import pytest

from benchmarks.chart import BarChart, Chart, LineChart
from benchmarks.drawing import svg

SVG = "{http://www.w3.org/2000/svg}"
LINES = LineChart("Mean TTFT <of all>", "users", "seconds", {"ours": [(1.0, 0.5), (2.0, 20.0)], "theirs": [(1.0, 3.0)]})
BARS = BarChart("Hits", "share", ["tau", "chat"], {"ours": [0.25, 0.75], "theirs": [0.125, None]})


def texts_of(chart: Chart) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg(chart)).iter(f"{SVG}text")]


@pytest.mark.parametrize("chart", [LINES, BARS])
def test_the_same_figures_give_the_same_bytes(chart: Chart) -> None:
    assert svg(chart) == svg(chart)


def test_a_line_chart_says_what_it_shows() -> None:
    """Title, axes, and the name of each line."""
    assert {"Mean TTFT <of all>", "users", "seconds", "ours", "theirs"} <= set(texts_of(LINES))


def test_a_bar_says_how_long_it_is() -> None:
    """Each of the three, and what is not there has neither bar nor figure."""
    texts = texts_of(BARS)

    assert {"tau", "chat", "share", "0.25", "0.75", "0.125"} <= set(texts)
    assert "nan" not in "".join(texts)


@pytest.mark.parametrize(
    "chart",
    [
        LineChart("t", "x", "y", {}),
        LineChart("t", "x", "y", {"a": [(0.0, 0.0)]}),
        BarChart("t", "y", ["g"], {"a": [None]}),
    ],
)
def test_nothing_cannot_be_drawn(chart: Chart) -> None:
    """Neither an empty chart nor a point that a logarithmic axis has no place for."""
    with pytest.raises(ValueError, match="the chart 't'"):
        svg(chart)
