"""Alerts as messages of Slack's incoming webhooks, which other chat servers accept too."""

import httpx
import msgspec

from gateway.telemetry.alert_delivery.delivery import Failure
from gateway.telemetry.alert_delivery.webhook import post
from gateway.tenancy.alerts.alert import Alert


def message(alert: Alert) -> bytes:
    """Return the message for *alert*. Names in it cannot mention people or channels, because ``<`` is escaped."""
    text = alert.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return msgspec.json.encode({"text": text})


class Slack:
    """Incoming webhook at *url*, which is a secret and is never logged."""

    def __init__(self, name: str, url: str, *, client: httpx.AsyncClient) -> None:
        self.name = name
        self._url = url
        self._client = client

    async def send(self, alert: Alert) -> Failure | None:
        return await post(self._client, self._url, message(alert), {})
