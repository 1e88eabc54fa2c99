"""Message frames for published and replayed KV events, as in `vllm/distributed/kv_events.py`. SGLang uses the same
format.

A published message has the frames topic, sequence and payload. A replay request has an empty frame and the first
sequence. For each batch in the replay buffer, the reply has an empty frame, topic, sequence and payload. vLLM up to
0.25 omits the topic. The last reply has sequence -1. A sequence number has 8 bytes, big-endian.
"""

import math
import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final

import msgspec

SEQUENCE_BYTES = 8
MAX_TOPIC_BYTES = 1024
"""Maximum length of a topic in bytes. The topic is stored with each message. Topics of llm-d contain the names of pod
and model.
"""
END: Final = b"\xff" * SEQUENCE_BYTES

_FLOAT64_IN_ARRAY = struct.Struct(">BBd")
_ARRAY = 0x90
_FLOAT64 = 0xCB


class Marker(Enum):
    """Frames other than a batch in a reply to a replay request."""

    END = "end"
    """End of a replay."""
    MALFORMED = "malformed"
    """Frames that violate the protocol."""


class BatchMessage(msgspec.Struct, frozen=True, gc=False):
    """Batch of events that has not been decoded yet."""

    seq: int
    payload: bytes
    ts: float | None
    """Creation time of the batch by the engine's clock, in seconds since 1970, or None if it is missing."""
    topic: bytes | None = None
    """Topic of the message, or None if the message has no topic."""


def read_live(frames: Sequence[bytes]) -> BatchMessage | None:
    """Parse the frames of a published message. If they are malformed, return None."""
    if len(frames) != 3:
        return None
    return _message(frames[0], frames[1], frames[2])


def read_replayed(frames: Sequence[bytes]) -> BatchMessage | Marker:
    """Parse the three or four frames of a reply to a replay request."""
    match frames:
        case [b"", topic, seq, payload]:
            message = Marker.END if seq == END else _message(topic, seq, payload)
        case [b"", seq, payload]:
            message = Marker.END if seq == END else _message(None, seq, payload)
        case _:
            message = None
    return Marker.MALFORMED if message is None else message


def replay_request(start: int) -> list[bytes]:
    """Return the frames of a replay request that starts at the sequence number *start*. The first frame is empty, as
    for a DEALER.
    """
    return [b"", start.to_bytes(SEQUENCE_BYTES, "big")]


def _message(topic: bytes | None, seq: bytes, payload: bytes) -> BatchMessage | None:
    if len(seq) != SEQUENCE_BYTES or seq == END or (topic is not None and len(topic) > MAX_TOPIC_BYTES):
        return None
    return BatchMessage(int.from_bytes(seq, "big"), payload, timestamp_of(payload), topic)


def timestamp_of(payload: bytes) -> float | None:
    """Return the timestamp of a batch without decoding the rest, or None if it is missing. A batch is a msgpack array
    whose first element is a 64-bit float.
    """
    if len(payload) < _FLOAT64_IN_ARRAY.size:
        return None
    array, kind, ts = _FLOAT64_IN_ARRAY.unpack_from(payload)
    is_there = array & 0xF0 == _ARRAY and kind == _FLOAT64 and math.isfinite(ts)
    return ts if is_there else None
