import pytest

from gateway.backends.bedrock.errors import BedrockFault
from gateway.backends.bedrock.frame import Frame, StreamEvent, read_frame
from gateway.protocol.errors import ReplyBroken


def test_an_event_is_its_name_and_payload() -> None:
    """An ordinary message is an event."""
    frame = Frame({":message-type": "event", ":event-type": "messageStart"}, b'{"role":"assistant","p":"abc"}')

    assert StreamEvent("messageStart", {"role": "assistant", "p": "abc"}) == read_frame(frame)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("internalServerException", 500),
        ("modelStreamErrorException", 502),
        ("validationException", 400),
        ("throttlingException", 429),
        ("ThrottlingException", 429),
        ("throttling", 429),
        ("serviceUnavailableException", 503),
        ("modelTimeoutException", 504),
        ("heardOfNeverException", 502),
        ("", 502),
    ],
)
def test_an_exception_is_a_fault(name: str, status: int) -> None:
    """Every member of the stream's exceptions has its own status, whatever its case; an unknown one is a 502."""
    fault = read_frame(Frame({":message-type": "exception", ":exception-type": name}, b'{"message":"m"}'))

    assert isinstance(fault, BedrockFault)
    assert status == fault.status


def test_an_error_is_a_fault() -> None:
    """The other form, code and message in headers and no payload, is read as well."""
    fault = read_frame(
        Frame({":message-type": "error", ":error-code": "InternalFailure", ":error-message": "boom"}, b"")
    )

    assert isinstance(fault, BedrockFault)
    assert (500, "Bedrock returned InternalFailure: boom") == (fault.status, fault.message)


def test_an_exception_labelled_as_an_event_is_a_fault() -> None:
    """The name decides where the label is wrong."""
    frame = Frame({":message-type": "event", ":event-type": "throttlingException"}, b'{"message":"slow down"}')

    fault = read_frame(frame)

    assert isinstance(fault, BedrockFault)
    assert 429 == fault.status


@pytest.mark.parametrize("payload", [b"{", b"[]", b"null", b"\xff", b'{"a":"\xff"}'])
def test_an_event_that_is_no_object_breaks_the_reply(payload: bytes) -> None:
    """A payload that is not a JSON object is not passed over in silence."""
    with pytest.raises(ReplyBroken):
        read_frame(Frame({":message-type": "event", ":event-type": "metadata"}, payload))
