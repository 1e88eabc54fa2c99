"""Connection of a gRPC client: HTTP/2 without the parts that gRPC does not need.

The server of the package grpcio needs three times the processor time for a request of Envoy.

1. Each call has a window, which the client may fill. The handler of the call decides when the client may send more. The
   window of the connection is always open, so that no call holds up the others.
2. While the client does not read, nothing is read from it. So it cannot make the server keep answers to its pings.
3. A client that breaks the protocol loses its connection, with the reason in the last frame.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.picker.http2 import frames
from gateway.picker.http2.call import STREAM_WINDOW, GrpcCall, Handler
from gateway.picker.http2.frames import ConnectionFault
from gateway.picker.http2.header_blocks import HeaderBlocks
from gateway.picker.http2.hpack import MAX_LIST_BYTES
from gateway.picker.http2.open_connections import OpenConnections
from gateway.protocol.headers import Headers

Opened = Callable[[GrpcCall, Headers], Handler | None]
"""Function that returns the handler of a new call with these headers, or None if it has already finished the call."""

MAX_CALLS: Final = 10_000
"""Maximum number of calls of one connection at a time. Each is a request of a caller that runs or waits."""
_CONNECTION_WINDOW: Final = 2**24
_CLOSE_S: Final = 1.0
"""Seconds in which a client must read the last frames of a connection that closes."""
_ACK: Final = frames.frame(frames.SETTINGS, frames.ACK, 0, b"")


class Connection(asyncio.Protocol):
    """Protocol class (asyncio) for the connection of one client. Implements `gateway.picker.http2.call.Carrier`."""

    def __init__(self, opened: Opened, connections: OpenConnections, *, max_message_bytes: int) -> None:
        """Create the connection, which is in *connections* while it is open."""
        self._opened = opened
        self._connections = connections
        self._max_message_bytes = max_message_bytes
        self._transport: asyncio.Transport | None = None
        self._peer: tuple[str, int] | None = None
        self._blocks = HeaderBlocks()
        self._calls: dict[int, GrpcCall] = {}
        self._waiting: dict[int, GrpcCall] = {}  # calls that the window of the connection does not permit to send
        self._rest = b""
        self._has_preface = False
        self._last = 0
        self._send_window = frames.DEFAULT_WINDOW
        self._stream_window = frames.DEFAULT_WINDOW
        self._max_payload = frames.MAX_PAYLOAD_BYTES
        self._uncredited = 0
        self._is_closing = False
        self._can_write = asyncio.Event()
        self._can_write.set()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # create_server always makes a full one
        address = transport.get_extra_info("peername")
        self._peer = (address[0], address[1]) if isinstance(address, tuple) else None
        self._connections.add(self)
        self.write(
            frames.settings(
                {
                    frames.MAX_CONCURRENT_STREAMS: MAX_CALLS,
                    frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                    frames.MAX_HEADER_LIST_SIZE: MAX_LIST_BYTES,
                }
            )
            + frames.window_update(0, _CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
        )

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        if self._rest:
            data = self._rest + data
        try:
            at = self._read(data)
        except ConnectionFault as fault:
            self._abort(fault.code)
            return
        self._rest = data[at:]
        if self._uncredited >= _CONNECTION_WINDOW // 2:
            self.write(frames.window_update(0, self._uncredited))
            self._uncredited = 0

    def eof_received(self) -> bool | None:
        """Let the transport close the connection, because HTTP/2 does not half-close connections."""
        return None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._connections.discard(self)
        self._transport = None
        self._can_write.set()
        self._waiting.clear()
        for call in list(self._calls.values()):
            call.lose()

    def pause_writing(self) -> None:
        self._can_write.clear()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._can_write.set()
        if self._transport is not None:
            self._transport.resume_reading()

    # ---- for calls

    @property
    def peer(self) -> tuple[str, int] | None:
        return self._peer

    def write(self, data: bytes) -> None:
        """Send *data*, which are whole frames (see `Carrier.write`)."""
        if self._transport is not None:
            self._transport.write(data)

    def pump(self, call: GrpcCall) -> None:
        """Send what waits in *call* (see `Carrier.pump`)."""
        allowed = min(call.send_window, self._send_window)
        if not call.waiting or allowed <= 0:
            if call.waiting and self._send_window <= 0:
                self._waiting[call.number] = call
            return
        data = call.waiting[0] if len(call.waiting) == 1 else b"".join(call.waiting)
        call.waiting.clear()
        if len(data) > allowed:
            call.waiting.append(data[allowed:])
            data = data[:allowed]
            if self._send_window == allowed:
                self._waiting[call.number] = call
        call.send_window -= len(data)
        self._send_window -= len(data)
        most = self._max_payload
        parts = [call.head()]
        for start in range(0, len(data), most):
            piece = data[start : start + most]
            parts.append(frames.frame_head(len(piece), frames.DATA, 0, call.number))
            parts.append(piece)
        self.write(b"".join(parts))
        if not call.waiting:
            if call.is_finished:
                call.close_out()
            call.wake()

    def forget(self, call: GrpcCall) -> None:
        """Note that *call* has ended (see `Carrier.forget`)."""
        self._calls.pop(call.number, None)
        self._waiting.pop(call.number, None)
        if self._is_closing and not self._calls:
            self._abort(frames.NO_ERROR)

    async def writable(self) -> None:
        """Wait until the client reads (see `Carrier.writable`)."""
        await self._can_write.wait()

    # ---- for the server

    def close_soon(self) -> None:
        """Ask the client for no further calls, and close the connection after the last call has ended."""
        self._is_closing = True
        if self._calls:
            # Calls that the client has already sent are served. It then uses another connection.
            self.write(frames.goaway(frames.MAX_WINDOW, frames.NO_ERROR))
        else:
            self._abort(frames.NO_ERROR)

    def close(self) -> None:
        """Close the connection and end its calls."""
        self._abort(frames.NO_ERROR)

    def _abort(self, code: int) -> None:
        """Close the connection for the reason *code*."""
        transport = self._transport
        if transport is None:
            return
        self._is_closing = True
        transport.write(frames.goaway(self._last, code))
        self._transport = None
        transport.close()
        asyncio.get_running_loop().call_later(_CLOSE_S, transport.abort)  # if the client reads nothing

    # ---- frames of the client

    def _read(self, data: bytes) -> int:
        """Handle the complete frames in *data*, and return their size."""
        at, end = 0, len(data)
        if not self._has_preface:
            preface = data[: len(frames.PREFACE)]
            if not frames.PREFACE.startswith(preface):
                raise ConnectionFault(frames.PROTOCOL_ERROR, "the client does not speak HTTP/2")
            if len(preface) < len(frames.PREFACE):
                return 0
            self._has_preface, at = True, len(preface)
        while end - at >= frames.HEAD_BYTES and self._transport is not None:
            size = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            if size > frames.MAX_PAYLOAD_BYTES:
                raise ConnectionFault(frames.FRAME_SIZE_ERROR, "a frame is too large")
            start = at + frames.HEAD_BYTES
            if end - start < size:
                break
            stream = int.from_bytes(data[at + 5 : start], "big") & frames.MAX_WINDOW
            self._handle(data[at + 3], data[at + 4], stream, data[start : start + size])
            at = start + size
        return at

    def _handle(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self._blocks.stream and (kind != frames.CONTINUATION or stream != self._blocks.stream):
            raise ConnectionFault(frames.PROTOCOL_ERROR, "headers are not continued")
        if kind == frames.DATA:
            self._data(flags, stream, payload)
        elif kind == frames.HEADERS:
            headers = self._blocks.begin(flags, stream, payload)
            if headers is not None:
                self._begin(stream, headers)
        elif kind == frames.CONTINUATION:
            headers = self._blocks.continued(flags, payload)
            if headers is not None:
                self._begin(stream, headers)
        elif kind == frames.WINDOW_UPDATE:
            self._window_update(stream, payload)
        elif kind == frames.RST_STREAM:
            self._rst_stream(stream, payload)
        elif kind == frames.SETTINGS:
            self._settings(flags, stream, payload)
        elif kind == frames.PING:
            self._ping(flags, stream, payload)
        elif kind == frames.PUSH_PROMISE:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "a client cannot push")
        # Other frames are ignored: GOAWAY of a client that only closes, PRIORITY, and unknown types.

    def _data(self, flags: int, stream: int, payload: bytes) -> None:
        self._uncredited += len(payload)
        call = self._calls.get(stream)
        if call is None or call.is_ended:
            if stream == 0 or stream > self._last:
                raise ConnectionFault(frames.PROTOCOL_ERROR, "data for a stream that was not opened")
            return  # the call has ended meanwhile
        call.feed(frames.unpadded(payload, flags), len(payload))
        if flags & frames.END_STREAM:
            call.end()

    def _begin(self, stream: int, headers: Headers) -> None:
        """Open a call with *headers*, or end the messages of an open call by its trailers."""
        ended = self._blocks.ends_stream
        if stream <= self._last:
            call = self._calls.get(stream)
            if call is not None and ended:
                call.end()
            return
        self._last = stream
        if len(self._calls) >= MAX_CALLS:
            self.write(frames.rst_stream(stream, frames.REFUSED_STREAM))
            return
        call = GrpcCall(stream, self, send_window=self._stream_window, max_message_bytes=self._max_message_bytes)
        self._calls[stream] = call
        call.handler = self._opened(call, headers)
        if ended:
            call.end()

    def _window_update(self, stream: int, payload: bytes) -> None:
        size = _number(payload) & frames.MAX_WINDOW
        if size == 0:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "a window grows by nothing")
        if stream == 0:
            self._send_window += size
            if self._send_window > frames.MAX_WINDOW:
                raise ConnectionFault(frames.FLOW_CONTROL_ERROR, "a window is too large")
            waiting = list(self._waiting.values())
            self._waiting.clear()
            for call in waiting:
                self.pump(call)
            return
        found = self._calls.get(stream)
        if found is not None:
            found.send_window += size
            if found.send_window > frames.MAX_WINDOW:
                raise ConnectionFault(frames.FLOW_CONTROL_ERROR, "a window is too large")
            self.pump(found)

    def _rst_stream(self, stream: int, payload: bytes) -> None:
        _number(payload)
        if stream == 0 or stream > self._last:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "the end of a stream that was not opened")
        call = self._calls.get(stream)
        if call is not None:
            call.lose()

    def _settings(self, flags: int, stream: int, payload: bytes) -> None:
        if stream != 0 or len(payload) % 6:
            raise ConnectionFault(frames.FRAME_SIZE_ERROR, "the settings have a wrong size or stream")
        if flags & frames.ACK:
            return
        for at in range(0, len(payload), 6):
            name = int.from_bytes(payload[at : at + 2], "big")
            value = int.from_bytes(payload[at + 2 : at + 6], "big")
            if name == frames.INITIAL_WINDOW_SIZE:
                self._resize(value)
            elif name == frames.MAX_FRAME_SIZE:
                if not frames.MAX_PAYLOAD_BYTES <= value < 2**24:
                    raise ConnectionFault(frames.PROTOCOL_ERROR, "a frame cannot have this size")
                self._max_payload = min(value, 2**18)
        self.write(_ACK)

    def _resize(self, window: int) -> None:
        """Change the window of all calls to *window*, less what was already sent."""
        if window > frames.MAX_WINDOW:
            raise ConnectionFault(frames.FLOW_CONTROL_ERROR, "a window is too large")
        change = window - self._stream_window
        self._stream_window = window
        for call in list(self._calls.values()):
            call.send_window += change
            self.pump(call)

    def _ping(self, flags: int, stream: int, payload: bytes) -> None:
        if stream != 0 or len(payload) != 8:
            raise ConnectionFault(frames.FRAME_SIZE_ERROR, "a ping has a wrong size or stream")
        if not flags & frames.ACK:
            self.write(frames.frame(frames.PING, frames.ACK, 0, payload))


def _number(payload: bytes) -> int:
    """Return the number in *payload*.

    Raises:
        ConnectionFault: if *payload* does not have four bytes.
    """
    if len(payload) != 4:
        raise ConnectionFault(frames.FRAME_SIZE_ERROR, "a frame has a wrong size")
    return int.from_bytes(payload, "big")
