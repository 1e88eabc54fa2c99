"""Clients of llm-d learn why a request was dropped."""

import pytest

from gateway.picker.dropped import dropped_headers
from gateway.protocol.errors import GatewayError, NoWorker, QueueFull, RateLimited, Stopping


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (QueueFull("full"), b"rejected-saturated"),
        (Stopping("stops"), b"rejected-shutting-down"),
        (NoWorker("none"), None),
        (RateLimited("limit"), None),
    ],
)
def test_the_reason_follows_from_the_error(error: GatewayError, reason: bytes | None) -> None:
    expected = [] if reason is None else [(b"x-llm-d-request-dropped-reason", reason)]

    assert expected == dropped_headers(error.status, error.to_body())


@pytest.mark.parametrize("body", [b"", b"upstream connect error", b"[]", b'{"error":"queue_full"}', b'{"error":{}}'])
def test_other_answers_have_no_reason(body: bytes) -> None:
    assert [] == dropped_headers(503, body)
