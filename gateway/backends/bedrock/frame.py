"""Frames of Bedrock's event stream, each of which is a response event or an error.

`aws.FrameParser` parses the framing itself (lengths, checksums, header types).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.backends.bedrock.errors import BedrockFault, fault, fault_of_exception
from gateway.backends.bedrock.json_object import read_object
from gateway.protocol.errors import ReplyBroken


@dataclass(frozen=True, slots=True)
class Frame:
    """Message of the event stream, with headers such as ``:message-type`` and a JSON payload as bytes."""

    headers: Mapping[str, Any]
    payload: bytes


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Event of a streamed response, e.g. ``contentBlockDelta``."""

    name: str
    payload: dict[str, Any]


def read_frame(frame: Frame) -> StreamEvent | BedrockFault:
    """Parse *frame* into an event of the response or an error.

    Bedrock ends a failed stream with an ``exception`` frame (JSON payload) or an ``error`` frame (headers only). An
    exception labeled as an ordinary event is recognized by its name.

    Raises:
        ReplyBroken: if the payload of an event is not a JSON object.
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
