"""One message after the other, to a real receiver."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from gateway.telemetry.trace_export.otlp import Encoder, rejected_spans
from gateway.telemetry.trace_export.sender import Sender
from tests.fakes.otlp_receiver import OtlpReceiver, receiving
from tests.gateway.telemetry.trace_export.examples import answered


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with receiving() as there:
        yield there


@pytest.fixture
def message() -> bytes:
    encoder = Encoder({}, "1.2")
    return encoder.message(encoder.spans(answered()))


def sent(url: str, message: bytes, stop: threading.Event | None = None, **more: Any) -> str | None:
    """Send *message* and return why it did not arrive."""
    given: dict[str, Any] = {"timeout_s": 10, "rejected": rejected_spans, "pauses_s": (0.0, 0.0)}
    sender = Sender(url, {"authorization": "Bearer abc"}, **(given | more))
    try:
        return sender(message, stop or threading.Event())
    finally:
        sender.close()


def test_a_message_arrives(receiver: OtlpReceiver, message: bytes) -> None:
    """Where OTLP wants it, compressed, with the headers of the settings."""
    assert sent(f"{receiver.url}/", message) is None

    assert (["/v1/traces"], [message]) == (receiver.paths, receiver.messages)
    (headers,) = receiver.headers
    assert ("application/x-protobuf", "gzip", "Bearer abc") == (
        headers["content-type"],
        headers["content-encoding"],
        headers["authorization"],
    )


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_that_is_busy_is_asked_again(receiver: OtlpReceiver, message: bytes, status: int) -> None:
    receiver.statuses = [(status, {"retry-after": "0"}), (status, {})]

    assert sent(receiver.url, message) is None
    assert (3, [message]) == (len(receiver.paths), receiver.messages)


def test_one_that_stays_busy_is_given_up(receiver: OtlpReceiver, message: bytes) -> None:
    receiver.statuses = [(503, {})] * 5

    assert "HTTP 503" == sent(receiver.url, message)
    assert 3 == len(receiver.paths)


@pytest.mark.parametrize("status", [301, 400, 401, 404, 500])
def test_one_that_refuses_is_not_asked_again(receiver: OtlpReceiver, message: bytes, status: int) -> None:
    """A redirection is not followed: it might lead the secret elsewhere."""
    receiver.statuses = [(status, {"location": f"{receiver.url}/elsewhere"})]

    assert f"HTTP {status}" == sent(receiver.url, message)
    assert ["/v1/traces"] == receiver.paths


def test_one_that_is_away_is_tried_again_and_given_up(message: bytes) -> None:
    assert "ConnectError" == sent("http://127.0.0.1:1", message)


def test_an_invalid_address_is_given_up(message: bytes) -> None:
    assert sent("http://", message) is not None


def test_a_stop_ends_the_tries(receiver: OtlpReceiver, message: bytes) -> None:
    """A message under way may still arrive."""
    stop = threading.Event()
    stop.set()
    receiver.statuses = [(503, {"retry-after": "20"})]

    assert "HTTP 503" == sent(receiver.url, message, stop, pauses_s=(60.0,))
    assert sent(receiver.url, message, stop) is None


def test_rejected_spans_are_reported(receiver: OtlpReceiver, message: bytes) -> None:
    """The rest of them is there."""

    receiver.answer = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=2)
    ).SerializeToString()

    assert "2 spans were rejected" == sent(receiver.url, message)


def test_the_environment_adds_nothing(receiver: OtlpReceiver, message: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator's credentials for its own receiver are nothing for a team's."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-operators-key=secret")

    assert sent(receiver.url, message) is None
    assert "x-operators-key" not in receiver.headers[0]
