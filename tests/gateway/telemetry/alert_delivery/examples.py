"""Alerts for tests of their delivery."""

from gateway.tenancy.alerts.alert import Alert, NewAlert

SENT = 1_795_262_400.0
"""2026-11-21 12:00 in UTC, when the alerts below were recorded."""


def an_alert(id_: str = "a", *, time: str = "2026-11-21T12:00:00Z") -> Alert:
    return Alert(
        id=id_,
        type="budget.threshold_reached",
        time=time,
        team="blue",
        scope="team",
        name="blue",
        model=None,
        budget="usd_per_month",
        period="2026-11",
        limit=10.0,
        used=8.25,
        threshold=0.8,
    )


def a_new_alert(id_: str) -> NewAlert:
    return NewAlert(alert=an_alert(id_), mark=id_, until=SENT + 60.0)
