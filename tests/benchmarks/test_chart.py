import xml.etree.ElementTree as ET

import pytest

from benchmarks.chart import LineChart

SVG = "{http://www.w3.org/2000/svg}"


def a_chart(**series: list[tuple[float, float]]) -> LineChart:
    return LineChart("Mean TTFT", "users", "seconds", series)


def lines_of(chart: LineChart) -> list[list[tuple[float, float]]]:
    """The points of each line, on the page."""
    found = ET.fromstring(chart.svg()).findall(f"{SVG}polyline")
    return [[(float(x), float(y)) for x, y in (p.split(",") for p in line.attrib["points"].split())] for line in found]


def texts_of(chart: LineChart) -> list[tuple[str, float]]:
    """What is written, and how far down."""
    found = ET.fromstring(chart.svg()).findall(f"{SVG}text")
    return [(text.text or "", float(text.attrib["y"])) for text in found]


def test_points_stand_where_their_values_say() -> None:
    """A tenfold is a third of three decades, upwards; across it is evenly."""
    ((left, middle, right),) = lines_of(a_chart(ours=[(0.0, 1.0), (50.0, 10.0), (100.0, 1000.0)]))

    assert (64.0, 372.0) == left
    assert pytest.approx((317.0, 372.0 - 332.0 / 3), abs=0.1) == middle
    assert (570.0, 40.0) == right


def test_each_line_is_named_at_its_end() -> None:
    """Names that would lie on each other stand below each other."""
    named = dict(texts_of(a_chart(one=[(0.0, 1.0), (1.0, 5.0)], two=[(0.0, 2.0), (1.0, 5.01)])))

    assert named["two"] + 15.0 == pytest.approx(named["one"])


def test_the_upright_axis_is_marked_in_ones_twos_and_fives() -> None:
    """Of each decade that the points touch."""
    written = texts_of(a_chart(ours=[(0.0, 3.0), (1.0, 40.0)]))
    marks = [(float(text), down) for text, down in written if text in {"1", "2", "5", "10", "20", "50", "100"}]

    # The 1 at the right end of the other axis comes last.
    assert [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1.0] == [value for value, _ in marks]
    assert marks[:-1] == sorted(marks[:-1], key=lambda mark: -mark[1])


def test_one_point_is_a_chart() -> None:
    """In the middle; its decade is the upright axis."""
    assert [[(317.0, 372.0)]] == lines_of(a_chart(ours=[(5.0, 1.0)]))


def test_what_is_written_cannot_break_the_page() -> None:
    """A name is text."""
    assert "a<b" in dict(texts_of(LineChart("a<b", "", "", {"&": [(0.0, 1.0)]})))


@pytest.mark.parametrize("points", [[], [(0.0, 0.0)]])
def test_nothing_to_draw_is_an_error(points: list[tuple[float, float]]) -> None:
    """No point, or one that a logarithm has no place for."""
    with pytest.raises(ValueError, match="the chart 'Mean TTFT' needs points above 0"):
        a_chart(ours=points).svg()
