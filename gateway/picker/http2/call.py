"""One call of a gRPC service: messages in both directions, on one stream of an HTTP/2 connection."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from gateway.picker.http2 import frames
from gateway.picker.http2.hpack import encoded

STREAM_WINDOW: Final = 2**20
"""Bytes of a call that the client may send before the gateway has taken them."""
_PREFIX_BYTES: Final = 5
_MAX_WAITING_BYTES: Final = 2**18
"""Bytes for the client that wait for its permission, above which `GrpcCall.drain` waits."""

OK: Final = 0
INVALID_ARGUMENT: Final = 3
NOT_FOUND: Final = 5
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
"""Statuses of gRPC."""

_ANSWER: Final = b"\x88" + encoded([(b"content-type", b"application/grpc")])  # 0x88 is the header :status 200
_OK: Final = encoded([(b"grpc-status", b"0")])


class Handler(Protocol):
    """Receiver of one call. No method may wait."""

    def on_message(self, message: bytes) -> None:
        """Receive the next message of the client."""
        ...

    def on_end(self) -> None:
        """Note that the client sends no more messages."""
        ...

    def on_lost(self) -> None:
        """Note that the client or the connection has ended the call. Nothing more can be sent."""
        ...

    @property
    def is_full(self) -> bool:
        """Return whether so much waits in the handler that the client must wait. `GrpcCall.resume` ends the wait."""
        ...


class Carrier(Protocol):
    """Connection that carries calls."""

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the client, or None for a Unix socket."""
        ...

    def write(self, data: bytes) -> None:
        """Send *data*, which are whole frames."""
        ...

    def pump(self, call: "GrpcCall") -> None:
        """Send what waits in *call*, as far as the client permits."""
        ...

    def forget(self, call: "GrpcCall") -> None:
        """Note that *call* has ended in both directions."""
        ...

    async def writable(self) -> None:
        """Wait until the client reads what was sent."""
        ...


class GrpcCall:
    """State of one call. The connection changes the windows."""

    __slots__ = (
        "_carrier",
        "_has_begun",
        "_held",
        "_is_released",
        "_max_message_bytes",
        "_needed",
        "_pieces",
        "_room",
        "_uncredited",
        "handler",
        "is_ended",
        "is_finished",
        "number",
        "receive_window",
        "send_window",
        "waiting",
    )

    def __init__(self, number: int, carrier: Carrier, *, send_window: int, max_message_bytes: int) -> None:
        self.number = number
        self.handler: Handler | None = None
        self.send_window = send_window
        """Bytes that the client permits to send on this stream."""
        self.receive_window = STREAM_WINDOW
        """Bytes that the client may still send on this stream."""
        self.waiting: list[bytes] = []
        """Bytes for the client that its windows do not permit to send."""
        self.is_ended = False
        """Whether the client sends nothing more."""
        self.is_finished = False
        """Whether the answer is complete, or the call has ended early."""
        self._carrier = carrier
        self._max_message_bytes = max_message_bytes
        self._pieces: list[bytes] = []
        self._held = 0
        self._needed = _PREFIX_BYTES
        self._uncredited = 0
        self._has_begun = False
        self._is_released = False
        self._room: asyncio.Event | None = None

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the client, or None for a Unix socket."""
        return self._carrier.peer

    # ---- from the client

    def feed(self, data: bytes, size: int) -> None:
        """Take *data* from a frame of *size* bytes, and pass complete messages to the handler."""
        self.receive_window -= size
        if self.receive_window < 0:
            raise frames.ConnectionFault(frames.FLOW_CONTROL_ERROR, "a stream sends more than its window permits")
        self._uncredited += size
        if self.is_finished:
            return
        self._pieces.append(data)
        self._held += len(data)
        if self._held >= self._needed:
            self._take(data if len(self._pieces) == 1 else b"".join(self._pieces))
        self.resume()

    def _take(self, data: bytes) -> None:
        """Pass the complete messages in *data* to the handler, and keep the rest."""
        at, end = 0, len(data)
        self._needed = _PREFIX_BYTES
        while end - at >= _PREFIX_BYTES and not self.is_finished:
            length = int.from_bytes(data[at + 1 : at + _PREFIX_BYTES], "big")
            if data[at]:
                self.finish(UNIMPLEMENTED, "compressed messages are not supported")
                break
            if length > self._max_message_bytes:
                self.finish(RESOURCE_EXHAUSTED, f"a message is larger than {self._max_message_bytes} bytes")
                break
            if end - at < _PREFIX_BYTES + length:
                self._needed = _PREFIX_BYTES + length
                break
            start = at + _PREFIX_BYTES
            at = start + length
            assert self.handler is not None, "the call has begun"
            self.handler.on_message(data[start:at])
        self._pieces = [data[at:]] if at < end and not self.is_finished else []
        self._held = end - at if self._pieces else 0

    def end(self) -> None:
        """Note that the client sends nothing more."""
        if self.is_ended:
            return
        self.is_ended = True
        if self.handler is not None and not self.is_finished:
            self.handler.on_end()
        self._release()

    def lose(self) -> None:
        """End the call, because the client or the connection has ended it."""
        was_running = not self.is_finished
        self.is_ended = self.is_finished = True
        self.waiting.clear()
        self.wake()
        if was_running and self.handler is not None:
            self.handler.on_lost()
        self._release()

    def resume(self) -> None:
        """Permit the client to send as many bytes as the handler has taken."""
        if self.is_ended or self._uncredited < STREAM_WINDOW // 2:
            return
        if not self.is_finished and self.handler is not None and self.handler.is_full:
            return
        self.receive_window += self._uncredited
        self._carrier.write(frames.window_update(self.number, self._uncredited))
        self._uncredited = 0

    # ---- to the client

    def send(self, messages: Sequence[bytes]) -> None:
        """Send *messages*. Nothing is sent after the end of the call."""
        if self.is_finished or not messages:
            return
        parts: list[bytes] = []
        for message in messages:
            parts.append(b"\x00" + len(message).to_bytes(4, "big"))
            parts.append(message)
        self.waiting.append(b"".join(parts))
        self._carrier.pump(self)

    async def drain(self) -> None:
        """Wait while the client does not take what was sent."""
        while sum(map(len, self.waiting)) > _MAX_WAITING_BYTES:
            self._room = self._room or asyncio.Event()
            self._room.clear()
            await self._room.wait()
        await self._carrier.writable()

    def wake(self) -> None:
        """Let `drain` look again at what waits."""
        if self._room is not None:
            self._room.set()

    def finish(self, status: int = OK, text: str = "") -> None:
        """End the call with a status of gRPC. What waits to be sent is dropped unless the status is `OK`."""
        if self.is_finished:
            return
        self.is_finished = True
        if status != OK:
            self.waiting.clear()
            self.wake()
        if not self.waiting:
            self.close_out(status, text)

    def close_out(self, status: int = OK, text: str = "") -> None:
        """Send the status, after everything else was sent."""
        trailers = (
            _OK if status == OK else encoded([(b"grpc-status", b"%d" % status), (b"grpc-message", text.encode())])
        )
        block = trailers if self._has_begun else _ANSWER + trailers
        flags = frames.END_HEADERS | frames.END_STREAM
        self._carrier.write(frames.frame(frames.HEADERS, flags, self.number, block))
        self.wake()
        if not self.is_ended:
            # The client has nothing to add to a call that is complete.
            self._carrier.write(frames.rst_stream(self.number, frames.NO_ERROR))
            self.is_ended = True
        self._release()

    def head(self) -> bytes:
        """Return the frame with the headers of the answer, or nothing if it was sent."""
        if self._has_begun:
            return b""
        self._has_begun = True
        return frames.frame(frames.HEADERS, frames.END_HEADERS, self.number, _ANSWER)

    def _release(self) -> None:
        if self.is_ended and self.is_finished and not self.waiting and not self._is_released:
            self._is_released = True
            self._carrier.forget(self)
