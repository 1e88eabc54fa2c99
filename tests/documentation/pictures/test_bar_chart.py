from documentation.pictures.bar_chart import BarChart, Row

CHART = BarChart(
    "Chart", "What it shows", "per second", [Row("theirs", 1234.5), Row("ours", 617.25, is_ours=True)], ["From a file."]
)


def test_lengths_begin_at_0_and_the_highest_value_is_the_longest() -> None:
    assert '<rect class="f-peer" x="178" y="65" width="254" height="22"/>' in CHART.svg()
    assert '<rect class="f-ours" x="178" y="96" width="127" height="22"/>' in CHART.svg()


def test_numbers_have_three_digits_or_no_fraction() -> None:
    assert ">1,234<" in CHART.svg()
    assert ">617<" in CHART.svg()
