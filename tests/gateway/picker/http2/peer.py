"""Client of HTTP/2 on a transport in memory, which sends bytes and reads frames."""

import asyncio
from typing import Any

from gateway.picker.http2 import frames
from gateway.picker.http2.call import GrpcCall
from gateway.picker.http2.connection import Connection
from gateway.picker.http2.hpack import encoded
from gateway.picker.http2.open_connections import OpenConnections
from gateway.protocol.headers import Headers

ASKED: Headers = [(b":method", b"POST"), (b":path", b"/a")]
ENDS = frames.END_HEADERS | frames.END_STREAM
Frame = tuple[int, int, int, bytes]
"""Type, flags, stream and payload."""


class Transport(asyncio.Transport):
    """Transport that keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False
        self.is_reading_ = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.9", 5000) if name == "peername" else default

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_reading_ = False

    def resume_reading(self) -> None:
        self.is_reading_ = True


class Noted:
    """Handler of a call that notes what it gets."""

    def __init__(self, call: GrpcCall, headers: Headers) -> None:
        self.call = call
        self.headers = headers
        self.messages: list[bytes] = []
        self.events: list[str] = []
        self.is_full = False

    def on_message(self, message: bytes) -> None:
        self.messages.append(message)

    def on_end(self) -> None:
        self.events.append("end")

    def on_lost(self) -> None:
        self.events.append("lost")


class Peer:
    """Client whose connection is open. The path ``/none`` has no handler."""

    def __init__(self, *, max_message_bytes: int = 3 * 2**20, greets: bool = True) -> None:
        self.calls: list[Noted] = []
        self.connections = OpenConnections()
        self.transport = Transport()
        self.connection = Connection(self._opened, self.connections, max_message_bytes=max_message_bytes)
        self.connection.connection_made(self.transport)
        if greets:
            self.send(frames.PREFACE, frames.settings({}))
            self.read()

    def _opened(self, call: GrpcCall, headers: Headers) -> Noted | None:
        if (b":path", b"/none") in headers:
            call.finish(12, "unknown")
            return None
        self.calls.append(Noted(call, headers))
        return self.calls[-1]

    def send(self, *parts: bytes) -> None:
        self.connection.data_received(b"".join(parts))

    def open(self, stream: int = 1, *, path: bytes = b"/a", flags: int = frames.END_HEADERS) -> Noted:
        """Open a call, and return its handler."""
        headers = [(b":method", b"POST"), (b":path", path)]
        self.send(frames.frame(frames.HEADERS, flags, stream, encoded(headers)))
        return self.calls[-1]

    def read(self) -> list[Frame]:
        """Return the frames that were written since the last read."""
        data, found = self.transport.written, []
        self.transport.written = b""
        while data:
            end = frames.HEAD_BYTES + int.from_bytes(data[:3], "big")
            found.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[frames.HEAD_BYTES : end]))
            data = data[end:]
        return found

    def reason(self) -> int:
        """Return the reason for which the connection was closed."""
        assert self.transport.is_closed
        kind, _, _, payload = self.read()[-1]
        assert frames.GOAWAY == kind
        return int.from_bytes(payload[4:], "big")


def message(data: bytes) -> bytes:
    """Return *data* as a message of gRPC."""
    return b"\x00" + len(data).to_bytes(4, "big") + data


def data_frames(stream: int, data: bytes, *, flags: int = 0) -> bytes:
    """Return *data* in frames, the last of which has *flags*."""
    starts = range(0, max(len(data), 1), frames.MAX_PAYLOAD_BYTES)
    return b"".join(
        frames.frame(
            frames.DATA,
            flags if start + frames.MAX_PAYLOAD_BYTES >= len(data) else 0,
            stream,
            data[start : start + frames.MAX_PAYLOAD_BYTES],
        )
        for start in starts
    )
