import pytest

from documentation.pictures.line_chart import Axis, LineChart, spread

CHART = LineChart(
    "Chart",
    "What it shows",
    Axis("load", 1, 100, (1, 10, 100)),
    Axis("time, s", 0, 10, (0, 5, 10), is_logarithmic=False, unit=" s"),
    {"ours": [(1, 5), (100, 5)]},
    {"theirs": [(1, 0), (100, 10)]},
    ["From a file."],
    label_width=100,
)


@pytest.mark.parametrize(("value", "share"), [(1, 0.0), (10, 0.5), (100, 1.0)])
def test_a_logarithmic_axis_gives_each_factor_the_same_width(value: float, share: float) -> None:
    assert pytest.approx(share) == Axis("", 1, 100, ()).share(value)


def test_a_linear_axis_gives_each_difference_the_same_width() -> None:
    assert 0.25 == Axis("", 0, 8, (), is_logarithmic=False).share(2)


def test_lines_go_through_their_points() -> None:
    """The plot is from 56 to 420 across, and from 66 down to 316."""
    svg = CHART.svg()

    assert '<path class="s-ours" d="M56 191 L420 191"' in svg
    assert '<path class="s-peer" d="M56 316 L420 66"' in svg


def test_ticks_have_plain_numbers_and_their_unit() -> None:
    assert ">100</text>" in CHART.svg()
    assert ">5 s</text>" in CHART.svg()


def test_ours_are_labeled_in_the_strong_color() -> None:
    svg = CHART.svg()

    assert (
        '<text class="f-ours" x="428" y="196" text-anchor="start" font-size="14" font-weight="600">ours<' in CHART.svg()
    )
    assert '<text class="f-muted" x="428" y="71" text-anchor="start" font-size="14">theirs<' in svg


def test_labels_that_are_close_move_apart_in_their_order() -> None:
    assert {"a": pytest.approx(91, abs=0.1), "b": pytest.approx(109, abs=0.1)} == spread(
        {"b": 101, "a": 99}, low=0, high=200
    )


def test_labels_stay_inside() -> None:
    heights = spread({"a": 198, "b": 199, "c": 200}, low=0, high=200)

    assert pytest.approx(200) == heights["c"]
    assert pytest.approx(164, abs=1) == heights["a"]
