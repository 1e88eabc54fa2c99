"""HTTP/1.1 connection to a worker.

1. It carries one exchange at a time. `begin` writes the request, `first_byte` and `wait_for_body` wait for data, and
   `take_body` returns it.
2. The parser's callbacks only record data. `data_received` decides once per packet whether to wake the waiting call.
3. No tasks or timers are started here. Deadlines are numbers that the pool's sweep compares with the time in `expire`.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Final, Literal

from gateway.backends.upstream.engine_progress import EngineProgress
from gateway.backends.upstream.response_parser import ResponseLimits, ResponseParser
from gateway.backends.upstream.stall_detector import StallDetector
from gateway.protocol.errors import ReplyBroken, UpstreamError, UpstreamTimeout

_JOIN_UP_TO_BYTES: Final = (
    16_384  # copying this much costs about 1 us, less than a second buffer on its way through the transport
)

_WRITE_AT_ONCE_BYTES: Final = 256 * 1024
"""Number of bytes to write at once, which takes the kernel 0.1 ms. Longer bodies are written in pieces of this size."""


class UpstreamConnection(asyncio.Protocol):
    """Connection that the pool opens and lends to one call at a time."""

    __slots__ = (
        "_is_lent",
        "_is_paused",
        "_loop",
        "_needs_body",
        "_on_lost",
        "_phase",
        "_phase_deadline",
        "_stalls",
        "_total_deadline",
        "_transport",
        "_unsent",
        "_waiter",
        "_worker_id",
        "died_unanswered",
        "exchanges",
        "failure",
        "idle_since",
        "response",
    )

    def __init__(
        self,
        worker_id: str,
        *,
        loop: asyncio.AbstractEventLoop,
        limits: ResponseLimits,
        on_lost: Callable[["UpstreamConnection"], None],
    ) -> None:
        self._worker_id = worker_id
        self._loop = loop
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[None] | None = None
        self._is_lent = False
        self._is_paused = False
        self._total_deadline = math.inf
        self._stalls = StallDetector()
        self._unsent = memoryview(b"")
        self.response = ResponseParser(limits)
        self.exchanges = 0
        """Number of requests that were written to the connection so far."""
        self.idle_since = 0.0
        """Monotonic time in seconds since which the connection has been idle. The pool sets this time."""
        self.failure: UpstreamError | None = None
        self.died_unanswered = False
        """Whether the worker closed the connection without sending any byte of a response."""

    # The exchange

    def begin(
        self,
        head: bytes,
        body: bytes,
        *,
        streams: bool,
        is_head_request: bool,
        first_byte_deadline: float,
        total_deadline: float,
        idle_s: float,
    ) -> None:
        """Write one request to the connection. Deadlines are monotonic seconds.

        The body is not held back while the transport's buffer is full, because the call waits for the response anyway.
        """
        self.response.expect(is_head_request=is_head_request)
        self._stalls.expect(idle_s)
        self._is_paused = False
        self._is_lent = True
        self._needs_body = streams
        self._phase: Literal["first_byte", "idle"] = "first_byte"
        self._phase_deadline = first_byte_deadline
        self._total_deadline = total_deadline
        self.exchanges += 1
        if len(body) <= _JOIN_UP_TO_BYTES:
            self._transport.write(head + body)
        elif len(body) <= _WRITE_AT_ONCE_BYTES:
            self._transport.writelines((head, body))
        else:
            self._transport.write(head)
            self._unsent = memoryview(body)
            self._send_on()

    def _send_on(self) -> None:
        """Write the next piece of a long body, and schedule the piece after it."""
        piece, self._unsent = self._unsent[:_WRITE_AT_ONCE_BYTES], self._unsent[_WRITE_AT_ONCE_BYTES:]
        if self._transport.is_closing():
            self._unsent = memoryview(b"")
            return
        self._transport.write(piece)
        if self._unsent:
            self._loop.call_soon(self._send_on)

    async def first_byte(self) -> None:
        """Wait for status and headers. If the call streams and the status is 200, also wait for the first byte of the
        body.

        Raises:
            ReplyBroken: if the connection breaks before that.
            UpstreamTimeout: if the ``first_byte`` or ``total`` time limit passes.
        """
        if not self._is_ready():
            self._waiter = waiter = self._loop.create_future()
            await waiter
        response = self.response
        begun = response.is_complete or response.status != 200 or not self._needs_body or response.pieces
        if not response.has_head or not begun:
            raise self._the_failure()
        self._needs_body = True
        self._phase = "idle"

    async def wait_for_body(self, now: float) -> None:
        """Wait until `take_body` can return data or must raise an error."""
        if not self._is_ready():
            self._stalls.paused_at = now
            self._phase_deadline = now + self._stalls.idle_s
            self._waiter = waiter = self._loop.create_future()
            await waiter

    def take_body(self) -> bytes:
        """Return all body data received since the last call, or ``b""`` at the end of the body.

        Raises:
            ReplyBroken: if the connection broke and all data received before has been returned.
            UpstreamTimeout: if the ``idle`` or ``total`` time limit passed and all data received before has been
                returned.
        """
        response = self.response
        if response.pieces:
            data = response.take_body()
            if self._is_paused:
                self._resume()
            return data
        if response.is_complete:
            return b""
        raise self._the_failure()

    def expect_within(self, idle_s: float) -> None:
        """Change the longest allowed pause to *idle_s* seconds. The change also affects a current wait."""
        self._stalls.idle_s = idle_s
        if self._is_pausing():
            self._phase_deadline = self._stalls.paused_at + idle_s

    def is_streaming(self) -> bool:
        """Return whether a response has begun and is not complete."""
        return self._is_lent and self._phase == "idle" and not self.response.is_complete

    def take_arrivals(self) -> int:
        """Return how many times response data has arrived since the last call of this method."""
        return self._stalls.take_arrivals()

    def compare(self, arrivals: int, others: int, others_arrivals: int) -> None:
        """Record how much data the worker's *others* streams received while this stream received *arrivals*."""
        self._stalls.compare(arrivals, others, others_arrivals, waits=self._waiter is not None)

    def inquire(self, engine: EngineProgress, now: float) -> None:
        """Check whether the engine *engine* generates tokens, if the current pause could be a stall."""
        if self._may_have_stalled():
            self._stalls.inquire(engine, now)

    def forgive(self, late_s: float) -> None:
        """Extend the deadline by *late_s* seconds, during which the gateway was blocked and could not receive data."""
        if self._may_have_stalled():
            self._phase_deadline += late_s

    def interrupt(self, error: UpstreamError) -> None:
        """Abort the exchange. The current wait or the next `take_body` raises *error*, and unread data is discarded."""
        self.response.pieces.clear()
        self.response.is_complete = False
        self.failure = error
        self._fail(error)

    def is_reusable(self) -> bool:
        """Return whether the exchange is complete and both sides keep the connection open."""
        return (
            self.response.is_complete
            and self.response.keep_alive
            and not self._unsent
            and not self._transport.is_closing()
            and self._transport.get_write_buffer_size() == 0
        )

    def is_open(self) -> bool:
        return not self._transport.is_closing()

    def rest(self, now: float) -> None:
        """End the exchange. Deadlines no longer apply, and any byte from the worker closes the idle connection."""
        self._is_lent = False
        self._total_deadline = math.inf
        self.response.pieces.clear()
        self.idle_since = now

    def abort(self) -> None:
        """Close the connection at once, which makes the worker stop generating."""
        self._fail(ReplyBroken(f"worker {self._worker_id}: the call was aborted"))

    def abandon(self) -> None:
        """Abort the exchange if no part of its response has arrived, so that another worker can answer the call."""
        if self._is_lent and self._waiter is not None and self._phase == "first_byte":
            self._fail(ReplyBroken(f"worker {self._worker_id}: health checks failed before the worker responded"))

    def expire(self, now: float) -> None:
        """Abort the exchange if one of its deadlines has passed."""
        if not self._is_lent or self.response.is_complete:
            return
        if now >= self._total_deadline:
            self._fail(
                UpstreamTimeout(
                    f"worker {self._worker_id}: the response was not complete within the total time limit",
                    phase="total",
                )
            )
        elif self._waiter is None or now < self._phase_deadline:
            return
        elif self._phase == "first_byte":
            self._fail(
                UpstreamTimeout(f"worker {self._worker_id}: no first byte within the time limit", phase="first_byte")
            )
        elif self._stalls.has_stalled(now):
            self._fail(UpstreamTimeout(f"worker {self._worker_id}: no data within the idle time limit", phase="idle"))

    def _is_pausing(self) -> bool:
        return self._waiter is not None and self._phase == "idle"

    def _may_have_stalled(self) -> bool:
        return self._is_pausing() and self._stalls.is_stricter()

    def _is_ready(self) -> bool:
        """Return whether the data for which the current call waits has arrived."""
        response = self.response
        if response.is_complete or self.failure is not None:
            return True
        if not response.has_head:
            return False
        if response.pieces or not self._needs_body:
            return True
        return self._phase == "first_byte" and response.status != 200

    def _the_failure(self) -> UpstreamError:
        return self.failure or ReplyBroken(f"worker {self._worker_id}: the response ended too early")

    def _fail(self, failure: UpstreamError) -> None:
        if self.failure is None:
            self.failure = failure
        self._transport.abort()
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _resume(self) -> None:
        self._is_paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # create_connection always makes a full one

    def data_received(self, data: bytes) -> None:
        response = self.response
        if not self._is_lent or response.is_complete:
            response.keep_alive = False
            self._transport.abort()
            return
        self._stalls.arrivals += 1
        fault = response.feed(data)
        if fault is not None:
            self._fail(ReplyBroken(f"worker {self._worker_id}: {fault}"))
        elif not self._is_paused and response.must_pause() and self.is_open():
            self._is_paused = True
            self._transport.pause_reading()
        if self._waiter is not None and self._is_ready():
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        response = self.response
        if self._is_lent and not response.is_complete and self.failure is None:
            where = "in the response body" if response.has_head else "before status and headers"
            if exc is not None or not response.close():
                self.died_unanswered = not response.has_head and response.unread_bytes == 0
                self.failure = ReplyBroken(f"worker {self._worker_id}: connection closed {where}")
        self._wake()
        self._on_lost(self)
