import pytest

from deploy.grafana.written import DASHBOARDS
from documentation.pictures.grafana_units import axis_end, shown


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "short", "0"),
        (1234, "short", "1.23 k"),
        (999.9, "none", "1000"),
        (12.345, "reqps", "12.3/s"),
        (0.456, "percentunit", "45.6%"),
        (45.6, "percent", "45.6%"),
        (0, "s", "0 s"),
        (0.0123, "s", "12.3 ms"),
        (90, "s", "1.5 min"),
        (31457280, "bytes", "30 MiB"),
        (0.00001, "currencyUSD", "$0.00001"),
        (65, "celsius", "65 °C"),
    ],
)
def test_a_number_is_shown_with_three_digits_and_its_unit(value: float, unit: str, text: str) -> None:
    assert text == shown(value, unit)


@pytest.mark.parametrize(("highest", "end"), [(0, 1), (0.7, 1), (1, 1), (1.2, 2), (3, 5), (60, 100)])
def test_an_axis_ends_at_a_plain_number(highest: float, end: float) -> None:
    assert pytest.approx(end) == axis_end(highest, "short")


def test_an_axis_of_sizes_and_times_ends_at_a_plain_number_of_its_own_unit() -> None:
    assert ["200 MiB", "10 min"] == [shown(axis_end(150 * 2**20, "bytes"), "bytes"), shown(axis_end(400, "s"), "s")]


def test_every_unit_of_the_dashboards_is_known() -> None:
    units = {panel.unit for dashboard in DASHBOARDS for row in dashboard.rows for panel in row.panels}

    assert [] == [unit for unit in units if not shown(1, unit)]
