import pytest

from documentation.pictures.saturation import LABELS, requests, streams
from documentation.pictures.stored_results import medians


@pytest.mark.parametrize("chart", [requests(), streams()])
def test_every_router_has_its_bar(chart: str) -> None:
    assert [] == [label for label in LABELS.values() if f">{label}<" not in chart]


def test_the_numbers_are_the_medians_of_the_stored_report() -> None:
    table = "Requests: median (lowest – highest) of the rounds"
    rate = medians("peers_saturation", table, "per s")["warmgate"]

    assert f">{rate:,.0f}<" in requests()
