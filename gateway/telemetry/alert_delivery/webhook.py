"""Webhooks that are signed as Standard Webhooks (https://www.standardwebhooks.com, version 1)."""

import asyncio
import base64
import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic

import httpx
import msgspec

from gateway.telemetry.alert_delivery.delivery import TIMEOUT_S, Failure, Sent
from gateway.tenancy.alerts.alert import Alert

AGAIN: Final = frozenset({408, 409, 425, 429})
"""HTTP statuses below 500 after which the same alert can be accepted later."""
BOUNDS: Final = (24, 64)
"""Minimum and maximum number of bytes of a secret."""
PREFIX: Final = "whsec_"


def secret_bytes(secret: str) -> bytes:
    """Return the key in *secret*, which has the form ``whsec_`` and base64.

    Raises:
        ValueError: if *secret* has another form.
    """
    if not secret.startswith(PREFIX):
        raise ValueError("the prefix is missing")
    key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    if not BOUNDS[0] <= len(key) <= BOUNDS[1]:
        raise ValueError("the length is wrong")
    return key


def payload(alert: Alert) -> bytes:
    """Return the body of the webhook for *alert*."""
    data: dict[str, Any] = msgspec.to_builtins(alert)
    for name in ("id", "type", "time"):
        del data[name]
    return msgspec.json.encode({"type": alert.type, "timestamp": alert.time, "data": data | {"text": alert.text}})


def signed_headers(key: bytes, message_id: str, timestamp: int, body: bytes) -> Mapping[str, str]:
    """Return the headers that identify and sign *body*. *timestamp* is in seconds since 1970."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.digest(key, signed, "sha256")).decode("ascii")
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }


class Webhook(Generic[Sent]):
    """Receiver at *url* that verifies signatures. *encode* returns the body for a message. The secret *key* is never
    logged.
    """

    def __init__(
        self,
        name: str,
        url: str,
        key: bytes,
        *,
        encode: Callable[[Sent], bytes],
        client: httpx.AsyncClient,
        wall_clock: Callable[[], float],
    ) -> None:
        self.name = name
        self._encode = encode
        self._url = url
        self._key = key
        self._client = client
        self._wall_clock = wall_clock

    async def send(self, message: Sent) -> Failure | None:
        body = self._encode(message)
        return await post(
            self._client, self._url, body, signed_headers(self._key, message.id, int(self._wall_clock()), body)
        )


async def post(client: httpx.AsyncClient, url: str, body: bytes, headers: Mapping[str, str]) -> Failure | None:
    """Send *body* to *url* once. The answer's body is not read, and redirects are not followed."""
    sent = {"content-type": "application/json", "user-agent": "warmgate", **headers}
    try:
        async with asyncio.timeout(TIMEOUT_S), client.stream("POST", url, content=body, headers=sent) as answer:
            status, pause = answer.status_code, answer.headers.get("retry-after", "")
    except TimeoutError:
        return Failure("no answer in time")
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        return Failure(type(fault).__name__)
    if httpx.codes.is_success(status):
        return None
    is_refusal = status not in AGAIN and not httpx.codes.is_server_error(status)
    return Failure(f"HTTP {status}", is_refusal, float(pause) if pause.isdecimal() and len(pause) < 9 else 0.0)
