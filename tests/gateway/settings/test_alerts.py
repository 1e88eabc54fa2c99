"""Settings of alerts."""

from typing import Any

import pytest

from gateway.settings import Settings, SettingsError, build
from tests.alert_receiver import SECRET

HOOK = {"name": "ops", "url": "https://ops.example.com/hook", "secret": SECRET}


def with_alerts(**alerts: Any) -> Settings:
    return build({"models": [{"name": "tiny", "workers": [{"url": "http://a"}]}], "alerts": alerts}, {})


def fault(**alerts: Any) -> str:
    with pytest.raises(SettingsError) as raised:
        with_alerts(**alerts)
    return str(raised.value)


def test_without_receivers_there_are_no_alerts() -> None:
    alerts = with_alerts().alerts

    assert ((0.5, 0.8, 1.0), 10, ()) == (alerts.thresholds, alerts.check_s, alerts.webhooks)


def test_the_secret_can_be_in_a_variable() -> None:
    models = [{"name": "tiny", "workers": [{"url": "http://a"}]}]
    hook = {"name": "ops", "url": "https://ops.example.com/hook", "secret_env": "HOOK_SECRET"}
    settings = build({"models": models, "alerts": {"webhooks": [hook]}}, {"HOOK_SECRET": SECRET})
    (found,) = settings.alerts.webhooks

    assert found.secret is not None
    assert SECRET == found.secret.get_secret_value()


def test_unusual_cost_is_five_times_the_usual_cost_by_default() -> None:
    anomaly = with_alerts().alerts.anomaly

    assert (5, 10, 3, 14) == (anomaly.factor, anomaly.min_usd, anomaly.min_days, anomaly.history_days)
    assert with_alerts(anomaly={"factor": None}).alerts.anomaly.factor is None


def test_a_team_cannot_need_more_days_than_are_read() -> None:
    assert "alerts.anomaly.min_days must not be greater than alerts.anomaly.history_days." == fault(
        anomaly={"min_days": 15}
    )
    assert "alerts.anomaly.factor is 1; the value must be greater than 1." == fault(anomaly={"factor": 1})


@pytest.mark.parametrize("secret", ["a-password", "whsec_short", "whsec_" + "A" * 88, "whsec_ä"])
def test_a_secret_of_another_form_is_refused_and_not_shown(secret: str) -> None:
    text = fault(webhooks=[HOOK | {"secret": secret}])

    assert "alerts.webhooks[0].secret" in text
    assert "whsec_ and 24 to 64 bytes in base64" in text
    assert secret not in text


def test_a_webhook_needs_a_secret() -> None:
    assert "alerts.webhooks[0].secret is required" in fault(webhooks=[{"name": "ops", "url": "https://ops"}])


def test_names_are_unique() -> None:
    assert "already used by alerts.webhooks[0].name" in fault(webhooks=[HOOK, HOOK])


@pytest.mark.parametrize("threshold", [0, -0.5, 11, "half"])
def test_thresholds_are_shares(threshold: Any) -> None:
    assert "alerts.thresholds[0]" in fault(thresholds=[threshold])


MAIL = {"name": "finance", "host": "mail", "sender": "a@example.com", "recipients": ["b@example.com"]}
CHAT = {"name": "chat", "secret": "https://hooks.slack.com/services/T0/B0/secret"}


def test_receivers_in_slack_and_by_email() -> None:
    alerts = with_alerts(slack=[CHAT], email=[MAIL]).alerts

    assert ("chat", 587, "starttls", None) == (
        *(alerts.slack[0].name, alerts.email[0].port, alerts.email[0].encryption),
        alerts.email[0].username,
    )


@pytest.mark.parametrize("url", ["chat.example.com/x", "https://user:pw@hooks.slack.com/x", "ftp://hooks.slack.com/x"])
def test_the_address_of_a_chat_is_a_secret(url: str) -> None:
    text = fault(slack=[CHAT | {"secret": url}])

    assert "alerts.slack[0].secret" in text
    assert url not in text
    assert "hooks.slack.com" not in repr(with_alerts(slack=[CHAT]))


def test_a_chat_needs_an_address() -> None:
    assert "alerts.slack[0].secret is required" in fault(slack=[{"name": "chat"}])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"username": "u"}, "alerts.email[0].secret is required for username"),
        ({"secret": "p"}, "alerts.email[0].username is required for a password"),
        ({"username": "u", "secret": "p", "encryption": "none"}, "alerts.email[0].encryption must be starttls or tls"),
        ({"recipients": []}, "alerts.email[0].recipients"),
        ({"recipients": ["b@example.com\r\nBcc: c@example.com"]}, "alerts.email[0].recipients[0]"),
        ({"sender": "nobody"}, "alerts.email[0].sender"),
    ],
)
def test_contradictions_of_email(changes: dict[str, Any], text: str) -> None:
    assert text in fault(email=[MAIL | changes])


def test_names_are_unique_among_all_kinds() -> None:
    assert "already used by alerts.webhooks[0].name" in fault(webhooks=[HOOK], email=[MAIL | {"name": "ops"}])
