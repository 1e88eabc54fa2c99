"""One message of Bedrock's event stream, and what it says: an event of the answer, or a fault.

The framing itself (lengths, checksums, header types) is read by `aws.FrameParser`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.backends.bedrock.errors import BedrockFault, fault, fault_of_exception
from gateway.backends.bedrock.json_object import read_object
from gateway.protocol.errors import ReplyBroken


@dataclass(frozen=True, slots=True)
class Frame:
    """Headers such as ``:message-type`` and the payload, JSON as bytes."""

    headers: Mapping[str, Any]
    payload: bytes


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One step of an answer, e.g. ``contentBlockDelta``."""

    name: str
    payload: dict[str, Any]


def read_frame(frame: Frame) -> StreamEvent | BedrockFault:
    """Return the event in *frame*.

    Bedrock breaks off a stream in two forms, ``exception`` (JSON payload) and ``error`` (headers only). An exception
    that comes labelled as an ordinary event is recognized by its name.

    Raises:
        ReplyBroken: the payload of an event is not a JSON object.
    """
    match frame.headers.get(":message-type"):
        case "exception":
            return fault_of_exception(str(frame.headers.get(":exception-type", "")), frame.payload)
        case "error":
            return fault(str(frame.headers.get(":error-code", "")), str(frame.headers.get(":error-message", "")))
    name = str(frame.headers.get(":event-type", ""))
    if name.lower().endswith("exception"):
        return fault_of_exception(name, frame.payload)
    try:
        return StreamEvent(name, read_object(frame.payload or b"{}"))
    except ValueError as error:
        raise ReplyBroken(f"Bedrock sent an event that is {error}") from error
