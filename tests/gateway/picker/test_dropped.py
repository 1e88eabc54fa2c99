"""Clients of llm-d learn why a request was dropped."""

import pytest

from gateway.picker.dropped import dropped_headers, status_of
from gateway.protocol.errors import AtCapacity, GatewayError, MemoryShort, NoWorker, QueueFull, RateLimited, Stopping


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (QueueFull("full"), 429, b"rejected-saturated"),
        (AtCapacity("full"), 429, b"rejected-saturated"),
        (MemoryShort("full"), 429, b"rejected-saturated"),
        (Stopping("stops"), 503, b"rejected-shutting-down"),
        (NoWorker("none"), 503, None),
        (RateLimited("limit"), 429, None),
    ],
)
def test_status_and_reason_follow_from_the_error(error: GatewayError, status: int, reason: bytes | None) -> None:
    expected = [] if reason is None else [(b"x-llm-d-request-dropped-reason", reason)]

    assert status == status_of(error)
    assert expected == dropped_headers(status, error.to_body())


@pytest.mark.parametrize("body", [b"", b"upstream connect error", b"[]", b'{"error":"queue_full"}', b'{"error":{}}'])
def test_other_answers_have_no_reason(body: bytes) -> None:
    assert [] == dropped_headers(503, body) == dropped_headers(429, body)


def test_other_statuses_have_no_reason() -> None:
    assert [] == dropped_headers(502, QueueFull("full").to_body())
