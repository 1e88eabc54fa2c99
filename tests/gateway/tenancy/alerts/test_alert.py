"""Alerts: their sentences, ids and times."""

import pytest
from msgspec import structs

from gateway.tenancy.alerts.alert import alert_id, alert_time, amount
from tests.gateway.telemetry.alert_delivery.examples import SENT, an_alert


def test_sentences() -> None:
    team = an_alert()
    user = structs.replace(team, scope="user", name="ann'\n" + "x" * 100, model="tiny", budget="tokens_per_day")
    no_one = structs.replace(user, name="", used=1234567.891)

    assert "The budget usd_per_month of team 'blue' has reached 80 % in 2026-11: 8.25 of 10 used." == team.text
    assert "\n" not in user.text
    assert "of team 'blue', model 'tiny' has reached" in user.text
    assert user.text.count("x") == 59
    assert "requests without an end user of team 'blue', model 'tiny'" in no_one.text
    assert "1,234,567.89 of 10 used" in no_one.text


@pytest.mark.parametrize(("units", "text"), [(1250.0, "1,250"), (0.25, "0.25"), (0.004, "0"), (10.1, "10.1")])
def test_amounts(units: float, text: str) -> None:
    assert text == amount(units)


def test_ids_depend_on_the_parts_alone() -> None:
    assert alert_id("a", "b") == alert_id("a", "b") != alert_id("a", "c")
    assert 32 == len(alert_id("a"))


def test_times() -> None:
    assert "2026-11-21T12:00:00Z" == alert_time(SENT)
