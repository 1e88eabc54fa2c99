"""Frames of HTTP/2 (RFC 9113), as bytes."""

from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""First bytes of a client."""
HEAD_BYTES: Final = 9
"""Size of the head of each frame."""
MAX_PAYLOAD_BYTES: Final = 16_384
"""Maximum payload of a frame, the default of the protocol."""
DEFAULT_WINDOW: Final = 65_535
"""Bytes that may be sent before the receiver allows more, the default of the protocol."""
MAX_WINDOW: Final = 2**31 - 1

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9
"""Types of frames."""

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20
"""Flags of frames."""

HEADER_TABLE_SIZE: Final = 1
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6
"""Settings of a connection."""

NO_ERROR: Final = 0
PROTOCOL_ERROR: Final = 1
FLOW_CONTROL_ERROR: Final = 3
STREAM_CLOSED: Final = 5
FRAME_SIZE_ERROR: Final = 6
REFUSED_STREAM: Final = 7
CANCEL: Final = 8
COMPRESSION_ERROR: Final = 9
ENHANCE_YOUR_CALM: Final = 11
"""Reasons for the end of a stream or a connection."""


class ConnectionFault(Exception):
    """Raised if a peer breaks the protocol, so that the connection must end with the reason *code*."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of the type *kind*."""
    return frame_head(len(payload), kind, flags, stream) + payload


def frame_head(size: int, kind: int, flags: int, stream: int) -> bytes:
    """Return the head of a frame whose payload has *size* bytes."""
    return ((size << 48) | (kind << 40) | (flags << 32) | stream).to_bytes(HEAD_BYTES, "big")


def settings(values: dict[int, int]) -> bytes:
    """Return the frame that announces the settings *values*."""
    parts = [name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in values.items()]
    return frame(SETTINGS, 0, 0, b"".join(parts))


def window_update(stream: int, size: int) -> bytes:
    """Return the frame that allows *size* further bytes on *stream*, or on the connection if *stream* is 0."""
    return frame(WINDOW_UPDATE, 0, stream, size.to_bytes(4, "big"))


def rst_stream(stream: int, code: int) -> bytes:
    """Return the frame that ends *stream* for the reason *code*."""
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def goaway(last: int, code: int) -> bytes:
    """Return the frame after which no stream above *last* is served, for the reason *code*."""
    return frame(GOAWAY, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big"))


def unpadded(payload: bytes, flags: int) -> bytes:
    """Return *payload* without the padding that *flags* announce.

    Raises:
        ConnectionFault: if the padding is longer than the payload.
    """
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(PROTOCOL_ERROR, "the padding is longer than the frame")
    return payload[1 : len(payload) - payload[0]]
