from documentation.pictures.drawing import Canvas
from documentation.pictures.panel_chart import PanelChart, PanelNumber, Values


def drawn(*series: tuple[str, Values], end: float | None = None) -> str:
    canvas = Canvas(300, "", "")
    PanelChart("Requests", "reqps", series, "5 min", end).draw(canvas, (16, 0), 236, 1)
    return canvas.svg()


def test_the_line_goes_from_edge_to_edge_of_the_plot() -> None:
    """The plot is from 68 to 252 across, and from 25 down to 109; its axis ends at 2."""
    assert '<path class="s-ours" d="M68 109 L252 46"' in drawn(("", [0, 1.5]))


def test_the_end_of_the_axis_can_be_given() -> None:
    assert ">1/s</text>" in drawn(("", [0, 0.1]), end=1)


def test_a_gap_divides_the_line() -> None:
    svg = drawn(("", [1, 1, None, 1, 1]))

    assert 2 == svg.count('<path class="s-ours"')


def test_four_names_are_shown_and_the_rest_is_counted() -> None:
    four = drawn(*[(name, [1.0, 2.0]) for name in "abcd"])
    six = drawn(*[(name, [1.0, 20.0 - ord(name) % 8]) for name in "abcdef"])

    assert [">d<" in four, "more" in four] == [True, False]
    assert [">c<" in six, ">d<" in six, ">and 3 more<" in six] == [True, False, True]


def test_a_name_has_the_color_of_its_line_beside_a_line_without_a_name() -> None:
    svg = drawn(("", [0, 0]), ("named", [1, 2]))

    assert '<path class="s-alert" d="M20 141 L32 141"' in svg


def test_a_long_title_takes_two_lines() -> None:
    chart = PanelChart("Prefill standing before a new request", "s", [], "5 min")

    assert ["Prefill standing before a", "new request"] == chart.titles
    assert chart.height(2) == chart.height(1) + 17


def test_a_number_stands_below_its_title() -> None:
    canvas = Canvas(100, "", "")
    PanelNumber("Models without a worker", "0", "ours").draw(canvas, (16, 0), (114, 84))

    assert ">Models without<" in canvas.svg()
    assert '<text class="f-ours" x="73" y="72" text-anchor="middle" font-size="20" font-weight="600">0<' in canvas.svg()
