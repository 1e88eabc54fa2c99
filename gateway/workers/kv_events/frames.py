"""The frames that engines publish and replay, as `vllm/distributed/kv_events.py` has them; SGLang's are the same.

Published: topic, sequence, payload. Asked for a replay: nothing, first sequence. Answered, for each batch that is still
kept: nothing, topic, sequence, payload; by vLLM up to 0.25 without the topic. At the end the same with a sequence of
-1. A sequence has 8 bytes, big-endian.
"""

import math
import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final

import msgspec

SEQUENCE_BYTES = 8
MAX_TOPIC_BYTES = 1024
"""Longest topic of a message: it is kept with the message, and llm-d's has the names of a pod and a model."""
END: Final = b"\xff" * SEQUENCE_BYTES

_FLOAT64_IN_ARRAY = struct.Struct(">BBd")
_ARRAY = 0x90
_FLOAT64 = 0xCB


class Marker(Enum):
    """Frames that are not a batch."""

    END = "end"
    """The end of a replay."""
    MALFORMED = "malformed"
    """Frames that break the protocol."""


class BatchMessage(msgspec.Struct, frozen=True, gc=False):
    """One batch of events, not decoded yet."""

    seq: int
    payload: bytes
    ts: float | None
    """Time at which the engine made it, in seconds since 1970 by its clock; None: it is missing."""
    topic: bytes | None = None
    """Topic; None: it came without one."""


def read_live(frames: Sequence[bytes]) -> BatchMessage | None:
    """Return the published message; None if it is malformed."""
    if len(frames) != 3:
        return None
    return _message(frames[0], frames[1], frames[2])


def read_replayed(frames: Sequence[bytes]) -> BatchMessage | Marker:
    """Return the answer in four frames or three."""
    match frames:
        case [b"", topic, seq, payload]:
            message = Marker.END if seq == END else _message(topic, seq, payload)
        case [b"", seq, payload]:
            message = Marker.END if seq == END else _message(None, seq, payload)
        case _:
            message = None
    return Marker.MALFORMED if message is None else message


def replay_request(start: int) -> list[bytes]:
    """Return the frames by which a DEALER requests batches from sequence *start* on, with the empty frame in front."""
    return [b"", start.to_bytes(SEQUENCE_BYTES, "big")]


def _message(topic: bytes | None, seq: bytes, payload: bytes) -> BatchMessage | None:
    if len(seq) != SEQUENCE_BYTES or seq == END or (topic is not None and len(topic) > MAX_TOPIC_BYTES):
        return None
    return BatchMessage(int.from_bytes(seq, "big"), payload, timestamp_of(payload), topic)


def timestamp_of(payload: bytes) -> float | None:
    """Return the first element of a batch without decoding the rest: a msgpack array that begins with a float of 64
    bits.
    """
    if len(payload) < _FLOAT64_IN_ARRAY.size:
        return None
    array, kind, ts = _FLOAT64_IN_ARRAY.unpack_from(payload)
    is_there = array & 0xF0 == _ARRAY and kind == _FLOAT64 and math.isfinite(ts)
    return ts if is_there else None
