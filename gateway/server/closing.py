"""Close client connections so that the client can read the last answer."""

import asyncio
from http import HTTPStatus
from typing import Final

from gateway.protocol.errors import GatewayError
from gateway.server.body_reader import BodyReader
from gateway.server.deadline import ClientDeadline
from gateway.server.request_queue import RequestQueue
from gateway.server.response_writer import ResponseWriter

_MAX_DISCARDED_BYTES: Final = 2**24  # after the end, so that a client that only sends can read its answer afterwards
_LINGER_S: Final = 1.0  # for a client to read an answer that it does not expect
_STOP_S: Final = 0.5  # an idle connection stays open after a stop: a busy client sends one more request in this time
_RECHECK_S: Final = 0.01  # between two checks: bytes that had arrived at the first are read at the second


class Closing:
    """Shutdown sequence of one client connection.

    1. The client must be able to read the last answer. If a socket is closed while it has unread bytes, the kernel
       sends a reset, and the client may lose the answer. Therefore the write side is closed first, and up to 16 MiB of
       bytes that still arrive are discarded.
    2. When the server stops, a connection that serves a request stays open until the answer is sent. An idle connection
       is closed after half a second.
    """

    __slots__ = (
        "_deadline",
        "_discarded_bytes",
        "_loop",
        "_queue",
        "_reader",
        "_transport",
        "_writer",
        "is_over",
        "is_stopping",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        reader: BodyReader,
        queue: RequestQueue,
        writer: ResponseWriter,
        deadline: ClientDeadline,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._transport = transport
        self._reader = reader
        self._queue = queue
        self._writer = writer
        self._deadline = deadline
        self._loop = loop
        self._discarded_bytes = 0
        self.is_over = False
        """Whether no more requests are read from the connection."""
        self.is_stopping = False
        """Whether the server is stopping, so that the next answer is the last one on the connection."""

    def close(self) -> None:
        """Close the connection after all data has been sent. A client that does not read the data is disconnected at
        its deadline.
        """
        self._writer.flush()
        self.is_over = True
        self._deadline.expect_request()
        self._transport.close()

    def linger(self) -> None:
        """Close the write side of the connection now, and the whole connection one second later."""
        self.is_over = True
        self._reader.resume()
        self._deadline.due = None
        if not self._transport.is_closing():
            self._transport.write_eof()
            self._loop.call_later(_LINGER_S, self.close)

    def answer(self, fault: GatewayError) -> None:
        """Send the error *fault* as the last answer on the connection."""
        body = fault.to_body()
        retry = f"retry-after: {fault.retry_after_s:g}\r\n" if fault.retry_after_s is not None else ""
        head = (
            f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}\r\ncontent-type: application/json\r\n{retry}"
            f"content-length: {len(body)}\r\nconnection: close\r\n"
        )
        self._writer.write(head.encode("ascii") + self._writer.date_line() + b"\r\n" + body)
        self.linger()

    def discard(self, size: int) -> None:
        """Count *size* bytes that arrived after the last request. If they exceed the limit, stop reading."""
        self._discarded_bytes += size
        if self._discarded_bytes > _MAX_DISCARDED_BYTES:
            self._reader.stop()

    def stop(self) -> None:
        """Prepare the connection for the stop of the server. If it is idle, close it soon."""
        self.is_stopping = True
        if self._queue.is_idle:
            self.close_if_idle_soon()

    def close_if_idle_soon(self) -> None:
        """Close the connection after half a second, unless a request arrives first."""
        self._loop.call_later(_STOP_S, self._check_twice)

    def _check_twice(self) -> None:
        self._loop.call_later(_RECHECK_S, self._close_if_idle)

    def _close_if_idle(self) -> None:
        # With an end of the stream and not a reset: proxies count a reset as a failure of this server (HAProxy retries
        # after an `empty-response`, but not after a read error).
        if self._queue.is_idle and not self.is_over:
            self.linger()
