"""Read a request body no faster than the application consumes it."""

import asyncio
from typing import Final

from gateway.server.cycle import Cycle
from gateway.server.deadline import ClientDeadline
from gateway.server.head_reader import ParsingStopped

MAX_UNWANTED_BYTES: Final = 65_536  # of a body that is read although its request has been answered
_MAX_UNREAD_BYTES: Final = 65_536  # of a body that the application has not asked for; asyncio's default for writing
_FRAMING_PER_BYTE: Final = 16  # bytes of chunk framing for each byte of a body; a chunk of one byte needs five


class BodyReader:
    """Reader for the request bodies on a connection. While the application is slow, it pauses reading from the socket.

    If a client sends more than 64 KiB of a body after its request was answered, the connection is closed.
    """

    __slots__ = (
        "_deadline",
        "_framing_bytes",
        "_is_paused",
        "_max_framing_bytes",
        "_piece_bytes",
        "_transport",
        "_unwanted_bytes",
        "cycle",
        "is_unwanted",
        "received_bytes",
    )

    def __init__(self, transport: asyncio.Transport, deadline: ClientDeadline, max_framing_bytes: int) -> None:
        self._transport = transport
        self._deadline = deadline
        self._max_framing_bytes = max_framing_bytes
        self._framing_bytes = 0  # chunk sizes, extensions and trailers
        self._piece_bytes = 0  # of the body, in the piece that is being parsed
        self._unwanted_bytes = 0
        self._is_paused = False
        self.cycle: Cycle | None = None
        """Request whose body is being read, or None if no body is being read."""
        self.received_bytes = 0
        self.is_unwanted = False
        """Whether parsing was stopped, because the client sent too much of a body that the application never reads."""

    def start(self) -> None:
        self.received_bytes = 0
        self._framing_bytes = 0
        self._deadline.start_body()

    def start_piece(self) -> None:
        self._piece_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Pass *body*, which is the next part of a request body, to the request. The HTTP parser calls this method."""
        size = len(body)
        self._piece_bytes += size
        self.received_bytes += size
        cycle = self.cycle
        if cycle is None:
            return
        if cycle.response_complete:
            self._unwanted_bytes += size
            if self._unwanted_bytes > MAX_UNWANTED_BYTES:
                self.is_unwanted = True
                raise ParsingStopped
            return
        cycle.body_came(body)
        if cycle.unread_bytes > _MAX_UNREAD_BYTES:
            self.pause()

    def end_piece(self, size: int) -> bool:
        """Count the chunk framing in *size* received bytes of an incomplete body. Return whether the framing is small
        enough.
        """
        self._framing_bytes += size - self._piece_bytes
        return self._framing_bytes <= self._max_framing_bytes + _FRAMING_PER_BYTE * self.received_bytes

    def complete(self) -> None:
        self.cycle = None
        self._unwanted_bytes = 0

    def expect(self) -> None:
        """Set the deadline for the next bytes of the body. Clear it while the client waits for the gateway."""
        if self.cycle is None:
            return
        if self._is_paused or self.cycle.expects_continue:
            self._deadline.due = None
        else:
            self._deadline.expect_body(self.received_bytes)

    def pause(self) -> None:
        """Stop reading from the client, and pause the deadline of the request body."""
        if not self._is_paused:
            self._is_paused = True
            self._deadline.pause()
            self._transport.pause_reading()

    def stop(self) -> None:
        """Stop reading from the client, but keep the deadline of the request body."""
        if not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Continue to read from the client."""
        if self._is_paused:
            self._is_paused = False
            self._deadline.resume()
            if not self._transport.is_closing():
                self._transport.resume_reading()
                self.expect()
