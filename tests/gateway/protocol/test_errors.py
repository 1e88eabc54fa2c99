import json

import msgspec
import pytest

from gateway.protocol.errors import (
    DECODE_ERRORS,
    AdminClosed,
    AdminKeyRefused,
    BodyTooLarge,
    ClientError,
    Conflict,
    ConnectFailed,
    Forbidden,
    GatewayError,
    HeadTooLarge,
    InvalidField,
    InvalidKey,
    MalformedBody,
    MethodNotAllowed,
    NoWorker,
    PreconditionFailed,
    QueueFull,
    QuotaSpent,
    RateLimited,
    ReplyBroken,
    Stopping,
    StoreUnavailable,
    TooManyConnections,
    UnknownEntity,
    UnknownModel,
    UnknownRoute,
    UnknownWorker,
    UnsupportedMedia,
    UpstreamError,
    UpstreamRefused,
    UpstreamTimeout,
)


@pytest.mark.parametrize(
    ("error", "status", "source", "retryable", "reason"),
    [
        (InvalidKey("x"), 401, "client", False, "InvalidKey"),
        (Forbidden("x", code="model_not_allowed"), 403, "client", False, "Forbidden"),
        (UnknownEntity("x"), 404, "client", False, "UnknownEntity"),
        (Conflict("x"), 409, "client", False, "Conflict"),
        (PreconditionFailed("x"), 412, "client", False, "PreconditionFailed"),
        (RateLimited("x", counted="tokens"), 429, "client", False, "RateLimited"),
        (QuotaSpent("x"), 429, "client", False, "QuotaSpent"),
        (QueueFull("x"), 503, "gateway", False, "QueueFull"),
        (StoreUnavailable("x"), 503, "gateway", False, "StoreUnavailable"),
        (GatewayError("x"), 500, "gateway", False, "GatewayError"),
        (MalformedBody("x"), 400, "client", False, "MalformedBody"),
        (InvalidField("x"), 400, "client", False, "InvalidField"),
        (AdminKeyRefused("x"), 401, "client", False, "AdminKeyRefused"),
        (AdminClosed("x"), 403, "client", False, "AdminClosed"),
        (UnknownModel("x"), 404, "client", False, "UnknownModel"),
        (UnknownWorker("x"), 404, "client", False, "UnknownWorker"),
        (UnknownRoute("x"), 404, "client", False, "UnknownRoute"),
        (MethodNotAllowed("x"), 405, "client", False, "MethodNotAllowed"),
        (BodyTooLarge("x"), 413, "client", False, "BodyTooLarge"),
        (UnsupportedMedia("x"), 415, "client", False, "UnsupportedMedia"),
        (HeadTooLarge("x"), 431, "client", False, "HeadTooLarge"),
        (TooManyConnections("x"), 503, "gateway", False, "TooManyConnections"),
        (NoWorker("x"), 503, "gateway", False, "NoWorker"),
        (Stopping("x"), 503, "gateway", False, "Stopping"),
        (UpstreamError("x"), 502, "upstream", True, "UpstreamError"),
        (ConnectFailed("x"), 502, "upstream", True, "ConnectFailed"),
        (UpstreamTimeout("x", phase="idle"), 504, "upstream", True, "UpstreamTimeout"),
        (ReplyBroken("x"), 502, "upstream", True, "ReplyBroken"),
        (UpstreamRefused("x", status=429), 429, "upstream", True, "UpstreamRefused"),
    ],
)
def test_each_error_knows_its_status_source_and_whether_to_try_again(
    error: GatewayError, status: int, source: str, retryable: bool, reason: str
) -> None:
    """The answer, the metric label, the log field and the next attempt come from these."""
    assert (status, source, retryable, reason) == (error.status, error.source, error.retryable, error.reason)


def test_the_body_is_openais() -> None:
    """Message, type, param and code, under one key."""
    error = InvalidField("temperature is 3", param="temperature")

    assert {
        "error": {
            "message": "temperature is 3",
            "type": "invalid_request_error",
            "param": "temperature",
            "code": None,
        }
    } == json.loads(error.to_body())


def test_an_error_may_say_when_to_come_again() -> None:
    """In seconds; without it, it does not say."""
    assert 1.5 == NoWorker("x", retry_after_s=1.5).retry_after_s
    assert 2.0 == UpstreamRefused("x", status=503, retry_after_s=2.0).retry_after_s
    assert ClientError("x").retry_after_s is None


def test_a_timeout_says_what_took_too_long() -> None:
    """One of the four waits of an exchange."""
    assert "first_byte" == UpstreamTimeout("x", phase="first_byte").phase


def test_headers_follow_from_what_is_said() -> None:
    """Whole seconds, of which there is at least one; what an error says itself counts."""
    error = NoWorker("x", retry_after_s=0.2)
    said = NoWorker("x", retry_after_s=7.0)
    said.headers = ((b"retry-after", b"3"),)

    assert [(b"retry-after", b"1")] == error.response_headers
    assert [(b"retry-after", b"3")] == said.response_headers
    assert [(b"www-authenticate", b"Bearer")] == InvalidKey("x").response_headers
    assert [] == InvalidField("x").response_headers


@pytest.mark.parametrize("data", [b"{", b'{"a": "\xff"}', b"[" * 100_000, b'"text"'])
def test_decode_errors_are_all_that_decoding_raises(data: bytes) -> None:
    """Incomplete, not UTF-8, nested too deeply, of another shape."""
    with pytest.raises(DECODE_ERRORS):
        msgspec.json.decode(data, type=dict[str, list[str]] if data == b'"text"' else object)
