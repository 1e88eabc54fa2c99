"""Small client for gRPC over HTTP/2, which costs much less than the server that it measures.

It supports what a gRPC server uses: settings, flow control, pings, and calls that end with trailers. It does not read
headers. Many calls share one connection, as those of one thread of Envoy do.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, cast

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW_BYTES: Final = 2**31 - 1
"""Bytes that the server may send before this side confirms any, for a call and for the connection."""
DEFAULT_WINDOW_BYTES: Final = 65_535
DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK: Final = 1
END_STREAM: Final = 1
END_HEADERS: Final = 4
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
PREFIX_BYTES: Final = 5
"""Length of the header of a gRPC message: a flag for compression, and the length of the message."""


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return len(content).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + content


def header_block(authority: str, path: str) -> bytes:
    """Return the compressed headers of a gRPC call (RFC 7541): indexes of the static table, and texts as they are."""

    def text(value: str) -> bytes:
        assert len(value) < 127, "longer texts have a longer length"
        return bytes([len(value)]) + value.encode("ascii")

    return (
        b"\x83\x86"  # :method POST, :scheme http
        + (b"\x04" + text(path))
        + (b"\x01" + text(authority))
        + (b"\x0f\x10" + text("application/grpc"))  # content-type
        + (b"\x00" + text("te") + text("trailers"))
    )


class Call:
    """Call with messages in both directions. *on_message* gets every message of the server. *on_end* is called once,
    after the server has ended the call.
    """

    __slots__ = ("_connection", "_got", "id", "is_ended", "on_end", "on_message", "room", "waiting")

    def __init__(
        self, connection: "Connection", number: int, on_message: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> None:
        self.id = number
        self.on_message = on_message
        self.on_end = on_end
        self.room = connection.call_room
        """Bytes that the server accepts for this call."""
        self.waiting: deque[tuple[bytes, int]] = deque()
        """Data to send, each with its flags, that wait for room."""
        self.is_ended = False
        self._connection = connection
        self._got = bytearray()

    def send(self, message: bytes) -> None:
        """Send a message."""
        self.waiting.append((b"\0" + len(message).to_bytes(4) + message, 0))
        self._connection.flush(self)

    def end(self) -> None:
        """Report that no more messages follow."""
        self.waiting.append((b"", END_STREAM))
        self._connection.flush(self)

    def take(self, data: bytes) -> None:
        """Take *data* of the server, and pass on the messages that are complete."""
        self._got += data
        while len(self._got) >= PREFIX_BYTES:
            end = PREFIX_BYTES + int.from_bytes(self._got[1:PREFIX_BYTES])
            if len(self._got) < end:
                return
            message = bytes(self._got[PREFIX_BYTES:end])
            del self._got[:end]
            self.on_message(message)


class Connection(asyncio.Protocol):
    """Connection to a gRPC server, for calls of the method *path*."""

    def __init__(self, authority: str, path: str) -> None:
        self._block = header_block(authority, path)
        self._calls: dict[int, Call] = {}
        self._next = 1
        self._buffer = bytearray()
        self._transport: asyncio.Transport
        self._room = DEFAULT_WINDOW_BYTES
        self._unconfirmed = 0
        self._max_frame = 16_384
        self.call_room = DEFAULT_WINDOW_BYTES
        """Bytes that the server accepts for a new call."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like asyncio's
        window = INITIAL_WINDOW_SIZE.to_bytes(2) + WINDOW_BYTES.to_bytes(4)
        more = (WINDOW_BYTES - DEFAULT_WINDOW_BYTES).to_bytes(4)
        self._transport.write(PREFACE + frame(SETTINGS, 0, 0, window) + frame(WINDOW_UPDATE, 0, 0, more))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        for call in list(self._calls.values()):
            self._end(call.id)

    def close(self) -> None:
        """Close the connection, which ends all calls."""
        self._transport.close()

    def call(self, on_message: Callable[[bytes], None], on_end: Callable[[], None]) -> Call:
        """Begin a call."""
        call = Call(self, self._next, on_message, on_end)
        self._calls[call.id] = call
        self._next += 2
        self._transport.write(frame(HEADERS, END_HEADERS, call.id, self._block))
        return call

    def flush(self, call: Call) -> None:
        """Send as much of the data of *call* as the server accepts."""
        while call.waiting and not call.is_ended:
            data, flags = call.waiting[0]
            size = min(len(data), self._max_frame, self._room, call.room)
            if data and size <= 0:
                return
            call.room -= size
            self._room -= size
            if size == len(data):
                call.waiting.popleft()
                self._transport.write(frame(DATA, flags, call.id, data))
            else:
                call.waiting[0] = (data[size:], flags)
                self._transport.write(frame(DATA, 0, call.id, data[:size]))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        at, whole = 0, self._buffer
        while len(whole) - at >= 9:
            end = at + 9 + int.from_bytes(whole[at : at + 3])
            if len(whole) < end:
                break
            stream = int.from_bytes(whole[at + 5 : at + 9]) & 0x7FFFFFFF
            self._take(whole[at + 3], whole[at + 4], stream, bytes(whole[at + 9 : end]))
            at = end
        del whole[:at]

    def _take(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        match kind:
            case 0:  # DATA
                self._confirm(len(content))
                if (call := self._calls.get(stream)) is not None:
                    call.take(content)
                if flags & END_STREAM:
                    self._end(stream)
            case 1 if flags & END_STREAM:  # HEADERS: the trailers
                self._end(stream)
            case 3:  # RESET
                self._end(stream)
            case 4 if not flags & ACK:  # SETTINGS
                self._set(content)
            case 6 if not flags & ACK:  # PING
                self._transport.write(frame(PING, ACK, 0, content))
            case 7:  # GO_AWAY
                self._transport.close()
            case 8:  # WINDOW_UPDATE
                self._widen(stream, int.from_bytes(content))

    def _set(self, content: bytes) -> None:
        for at in range(0, len(content), 6):
            name, value = int.from_bytes(content[at : at + 2]), int.from_bytes(content[at + 2 : at + 6])
            if name == MAX_FRAME_SIZE:
                self._max_frame = min(value, 2**14)
            elif name == INITIAL_WINDOW_SIZE:
                for call in self._calls.values():
                    call.room += value - self.call_room
                self.call_room = value
        self._transport.write(frame(SETTINGS, ACK, 0, b""))
        self._flush_all()

    def _widen(self, stream: int, more: int) -> None:
        if stream == 0:
            self._room += more
            self._flush_all()
        elif (call := self._calls.get(stream)) is not None:
            call.room += more
            self.flush(call)

    def _flush_all(self) -> None:
        for call in list(self._calls.values()):
            if call.waiting:
                self.flush(call)

    def _confirm(self, count: int) -> None:
        """Let the server send more when it has sent half of what it may."""
        self._unconfirmed += count
        if self._unconfirmed > WINDOW_BYTES // 2:
            self._transport.write(frame(WINDOW_UPDATE, 0, 0, self._unconfirmed.to_bytes(4)))
            self._unconfirmed = 0

    def _end(self, stream: int) -> None:
        call = self._calls.pop(stream, None)
        if call is not None:
            call.is_ended = True
            call.on_end()


async def connect(host: str, port: int, path: str) -> Connection:
    """Return a connection to the gRPC server at *host* and *port*, for calls of the method *path*."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(f"{host}:{port}", path), host, port)
    return connection
