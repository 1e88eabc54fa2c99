"""Webhooks: their form, their signature, and what the answers of receivers mean."""

import json
import time

import httpx
import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from gateway.backends.http_client import HttpClient
from gateway.telemetry.alert_delivery import webhook as module
from gateway.telemetry.alert_delivery.delivery import Failure
from gateway.telemetry.alert_delivery.webhook import Webhook, payload, secret_bytes, signed_headers
from tests.alert_receiver import SECRET, AlertReceiver, alert_receiver
from tests.gateway.examples import Clock
from tests.gateway.telemetry.alert_delivery.examples import an_alert


def test_the_body_says_what_happened() -> None:
    assert {
        "type": "budget.threshold_reached",
        "timestamp": "2026-11-21T12:00:00Z",
        "data": {
            "team": "blue",
            "scope": "team",
            "name": "blue",
            "model": None,
            "budget": "usd_per_month",
            "period": "2026-11",
            "limit": 10.0,
            "used": 8.25,
            "threshold": 0.8,
            "text": "The budget usd_per_month of team 'blue' has reached 80 % in 2026-11: 8.25 of 10 used.",
        },
    } == json.loads(payload(an_alert()))


def test_the_signature_is_that_of_the_standard() -> None:
    """The example of the specification."""
    key = secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" == headers["webhook-signature"]


@pytest.mark.parametrize(
    "secret", ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_short", "whsec_MfKQ9r8GKYqrTwjUPD8=", "whsec_" + "A" * 88]
)
def test_other_secrets_are_no_keys(secret: str) -> None:
    with pytest.raises(ValueError):
        secret_bytes(secret)


async def sent(receiver: AlertReceiver) -> Failure | None:
    async with HttpClient(verify=False, follow_redirects=False) as client:
        hook = Webhook("ops", receiver.url, secret_bytes(SECRET), encode=payload, client=client, wall_clock=time.time)
        return await hook.send(an_alert())


async def test_a_receiver_verifies_the_alert() -> None:
    """With the library of Standard Webhooks, which accepts no other secret."""
    async with alert_receiver() as receiver:
        assert None is await sent(receiver)
        ((headers, body),) = receiver.got

    assert ["a"] == receiver.ids()
    assert "blue" == receiver.alerts()[0]["data"]["team"]
    with pytest.raises(WebhookVerificationError):
        Verifier("whsec_" + "A" * 32).verify(body.decode(), headers)


@pytest.mark.parametrize(
    ("status", "headers", "failure"),
    [
        (204, "", None),
        (302, "location: http://127.0.0.1:1/\r\n", Failure("HTTP 302", is_refusal=True)),
        (400, "", Failure("HTTP 400", is_refusal=True)),
        (429, "retry-after: 7\r\n", Failure("HTTP 429", pause_s=7.0)),
        (429, "retry-after: soon\r\n", Failure("HTTP 429")),
        (429, "retry-after: 999999999\r\n", Failure("HTTP 429")),
        (500, "", Failure("HTTP 500")),
    ],
)
async def test_answers(status: int, headers: str, failure: Failure | None) -> None:
    """A redirect is not followed: only the settings name receivers."""
    async with alert_receiver(status) as receiver:
        receiver.headers = headers
        assert failure == await sent(receiver)
        assert 1 == receiver.attempts


async def test_a_receiver_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.05)
    async with alert_receiver(None) as receiver:
        assert Failure("no answer in time") == await sent(receiver)


async def test_a_receiver_that_is_not_there() -> None:
    assert Failure("ConnectError") == await sent(AlertReceiver(url="http://127.0.0.1:1/hook"))


async def test_each_attempt_has_its_own_time() -> None:
    """Receivers refuse old signatures."""
    clock, found = Clock(1000.0), []

    def handle(request: httpx.Request) -> httpx.Response:
        found.append((request.headers["webhook-timestamp"], request.headers["webhook-id"]))
        return httpx.Response(503)

    async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as client:
        hook = Webhook("ops", "http://ops", secret_bytes(SECRET), encode=payload, client=client, wall_clock=clock)
        await hook.send(an_alert())
        clock.now = 1060.9
        await hook.send(an_alert())

    assert [("1000", "a"), ("1060", "a")] == found
