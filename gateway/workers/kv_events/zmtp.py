"""ZMTP 3, the wire protocol of ZeroMQ, for a connection with one engine, from bytes to frames without any I/O.

libzmq limits the size of a message part but not the number of parts, and it stores all parts until the last one
arrives. So a single peer can fill the memory. This implementation limits the bytes and the parts of a message, and its
reading can be paused. The specification is https://rfc.zeromq.org/spec/23/ (ZMTP 3.0, mechanism NULL), which libzmq 4
and later implement.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

MAX_COMMAND_BYTES = 4096
MAX_PARTS = 8
"""Maximum number of parts in a message. Engines send three parts: topic, sequence and payload."""

_MECHANISM = b"NULL".ljust(20, b"\0")
_GREETING_BYTES = 64
_GREETING: Final = (b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + _MECHANISM).ljust(_GREETING_BYTES, b"\0")

_MORE, _LONG, _COMMAND = 0x01, 0x02, 0x04
_LENGTH = struct.Struct(">I")
_LONG_SIZE = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class SocketRole:
    """Socket type of the gateway's side of a connection, and the messages that it sends first."""

    socket_type: bytes
    peers: tuple[bytes, ...]
    """Socket types that the other side of the connection is allowed to have."""
    first: bytes
    """Encoded frames to send after the handshake."""


class ProtocolError(Exception):
    """Raised if the peer violates the protocol or a limit. The connection must be closed."""


class ReadProgress(Enum):
    """Result of a read step that did not complete a message."""

    READY = "ready"
    """State in which the handshake has succeeded, so that messages can follow."""
    BUSY = "busy"
    """State in which a message part or a command was read. More data might be available."""
    IDLE = "idle"
    """State in which the next frame is incomplete, so that more bytes are needed."""


class _Phase(Enum):
    GREETING = "greeting"
    HANDSHAKE = "handshake"
    TRAFFIC = "traffic"


class ZmtpSession:
    """State of one connection. `feed` adds received bytes, `step` reads one frame, and `outgoing` has the bytes to
    send.
    """

    def __init__(self, *, max_message_bytes: int, max_parts: int = MAX_PARTS, role: SocketRole | None = None) -> None:
        """Create the session. *role* is the gateway's socket type, or None for a subscriber to all topics."""
        self._role = subscriber() if role is None else role
        self._max_message_bytes = max_message_bytes
        self._max_parts = max_parts
        self._phase = _Phase.GREETING
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._needed_bytes = _GREETING_BYTES
        self.outgoing = bytearray(_GREETING)

    @property
    def held_bytes(self) -> int:
        """Number of received bytes that are not part of a returned message yet."""
        return len(self._buffer) + self._parts_bytes

    @property
    def is_short(self) -> bool:
        """Whether the next frame is incomplete."""
        return len(self._buffer) < self._needed_bytes

    def feed(self, received: bytes) -> None:
        self._buffer += received

    def clear(self) -> None:
        """Discard all bytes that have been received."""
        self._buffer.clear()
        self._parts.clear()
        self._parts_bytes = 0

    def step(self) -> list[bytes] | ReadProgress:
        """Read one frame. If it completes a message, return all parts of the message.

        Raises:
            ProtocolError: if the peer violated the protocol or a limit. The message says which.
        """
        if self.is_short:
            return ReadProgress.IDLE
        if self._phase is _Phase.GREETING:
            return self._greet()
        flags, begin, end = self._head()
        if end > len(self._buffer):
            self._needed_bytes = end
            return ReadProgress.IDLE
        body = bytes(memoryview(self._buffer)[begin:end])
        del self._buffer[:end]
        self._needed_bytes = 2
        if flags & _COMMAND:
            return self._command(body)
        return self._part(body, has_more=bool(flags & _MORE))

    def _greet(self) -> ReadProgress:
        greeting = bytes(self._buffer[:_GREETING_BYTES])
        if greeting[0] != 0xFF or not greeting[9] & 1 or greeting[10] < 3:
            raise ProtocolError("the peer does not speak ZMTP 3")
        if greeting[12:32] != _MECHANISM:
            raise ProtocolError("the peer requires a security mechanism other than NULL")
        del self._buffer[:_GREETING_BYTES]
        self._phase, self._needed_bytes = _Phase.HANDSHAKE, 2
        kind = self._role.socket_type
        self.outgoing += _command_frame(b"\x05READY\x0bSocket-Type" + _LENGTH.pack(len(kind)) + kind)
        return ReadProgress.BUSY

    def _head(self) -> tuple[int, int, int]:
        """Return the flags of the next frame, and the start and end of its body. If the size is still unknown, the end
        is 9.
        """
        flags = self._buffer[0]
        if flags & ~(_MORE | _LONG | _COMMAND):
            raise ProtocolError("the peer sent a frame with unknown flags")
        if not flags & _LONG:
            begin, size = 2, self._buffer[1]
        elif len(self._buffer) < 1 + _LONG_SIZE.size:
            return flags, 1 + _LONG_SIZE.size, 1 + _LONG_SIZE.size
        else:
            begin, size = 1 + _LONG_SIZE.size, _LONG_SIZE.unpack_from(self._buffer, 1)[0]
        self._check(flags, size)
        return flags, begin, begin + size

    def _check(self, flags: int, size: int) -> None:
        """Raise ProtocolError if the type or size of a frame is not allowed. The body of the frame has not been
        received yet.
        """
        if flags & _COMMAND:
            if size > MAX_COMMAND_BYTES:
                raise ProtocolError(f"the peer sent a command of more than {MAX_COMMAND_BYTES} bytes")
            return
        if self._phase is not _Phase.TRAFFIC:
            raise ProtocolError("the peer sent a message before the handshake")
        if self._parts_bytes + size > self._max_message_bytes:
            raise ProtocolError(f"the peer sent a message of more than {self._max_message_bytes} bytes")
        if len(self._parts) + 1 + bool(flags & _MORE) > self._max_parts:
            raise ProtocolError(f"the peer sent a message of more than {self._max_parts} parts")

    def _part(self, body: bytes, *, has_more: bool) -> list[bytes] | ReadProgress:
        self._parts.append(body)
        self._parts_bytes += len(body)
        if has_more:
            return ReadProgress.BUSY
        message, self._parts, self._parts_bytes = self._parts, [], 0
        return message

    def _command(self, body: bytes) -> ReadProgress:
        if self._phase is _Phase.HANDSHAKE:
            return self._shake_hands(body)
        if body.startswith(b"\x04PING"):
            self.outgoing += _command_frame(b"\x04PONG" + body[7:])
        return ReadProgress.BUSY

    def _shake_hands(self, body: bytes) -> ReadProgress:
        if not body.startswith(b"\x05READY"):
            raise ProtocolError("the peer refused the handshake")
        if _socket_type(body[6:]) not in self._role.peers:
            raise ProtocolError(f"the peer is not a {self._role.peers[0].decode()} socket")
        self._phase = _Phase.TRAFFIC
        self.outgoing += self._role.first
        return ReadProgress.READY


def subscriber(topic: bytes = b"") -> SocketRole:
    """Return the role for a SUB socket that receives topics starting with *topic*."""
    return SocketRole(b"SUB", (b"PUB", b"XPUB"), _message([b"\x01" + topic]))


def dealer(request: Sequence[bytes]) -> SocketRole:
    """Return the role for a DEALER socket that sends the parts of *request* and receives the replies."""
    return SocketRole(b"DEALER", (b"ROUTER", b"DEALER", b"REP"), _message(request))


def _message(parts: Sequence[bytes]) -> bytes:
    frames = bytearray()
    for number, part in enumerate(parts, 1):
        more = _MORE if number < len(parts) else 0
        frames += bytes([more | _LONG]) + _LONG_SIZE.pack(len(part)) if len(part) > 0xFF else bytes([more, len(part)])
        frames += part
    return bytes(frames)


def _command_frame(body: bytes) -> bytes:
    """Encode a command frame of ZMTP. A body of more than 255 bytes uses the long form."""
    if len(body) > 0xFF:
        return bytes([_COMMAND | _LONG]) + _LONG_SIZE.pack(len(body)) + body
    return bytes([_COMMAND, len(body)]) + body


def _socket_type(properties: bytes) -> bytes | None:
    """Return the property Socket-Type in a READY command, or None if it is missing."""
    position = 0
    while position < len(properties):
        name_end = position + 1 + properties[position]
        name = properties[position + 1 : name_end]
        if name_end + _LENGTH.size > len(properties):
            return None
        value_begin = name_end + _LENGTH.size
        position = value_begin + _LENGTH.unpack_from(properties, name_end)[0]
        if name.lower() == b"socket-type":
            return properties[value_begin:position]
    return None
