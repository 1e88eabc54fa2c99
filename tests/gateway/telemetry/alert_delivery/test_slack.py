"""Messages of Slack's incoming webhooks."""

import json

from msgspec import structs

from gateway.backends.http_client import HttpClient
from gateway.telemetry.alert_delivery.slack import Slack, message
from tests.alert_receiver import alert_receiver
from tests.gateway.telemetry.alert_delivery.examples import an_alert


def test_names_cannot_mention_people_or_channels() -> None:
    """Callers choose the names of end users."""
    alert = structs.replace(an_alert(), scope="user", name="<!channel> & more")

    assert {
        "text": "The budget usd_per_month of user '&lt;!channel&gt; &amp; more' of team 'blue' has reached 80 % in "
        "2026-11: 8.25 of 10 used."
    } == json.loads(message(alert))


async def test_the_message_is_posted() -> None:
    async with alert_receiver() as receiver, HttpClient(verify=False) as client:
        assert None is await Slack("chat", receiver.url, client=client).send(an_alert())
        ((headers, body),) = receiver.got

    assert "application/json" == headers["content-type"]
    assert "The budget usd_per_month of team 'blue' has reached 80 %" in json.loads(body)["text"]


async def test_a_failure_names_no_address() -> None:
    """The address is a secret."""
    async with alert_receiver(404) as receiver, HttpClient(verify=False) as client:
        failure = await Slack("chat", receiver.url, client=client).send(an_alert())

    assert failure is not None
    assert ("HTTP 404", True) == (failure.reason, failure.is_refusal)
