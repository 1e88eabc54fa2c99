"""One HTTP/1.1 connection to a worker.

1. One exchange at a time: `begin` writes the request, `first_byte` and `wait_for_body` wait, `take_body` hands out.
2. The parser's callbacks only note what came; `data_received` decides once per packet whether anybody has to wake up.
3. No task and no timer is started here: deadlines are plain numbers that the pool's sweep hands to `expire`.
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
"""The kernel takes them in 0.1 ms; of a longer body it gets so much in each turn of the loop."""


class UpstreamConnection(asyncio.Protocol):
    """Made by the pool, lent to one call at a time."""

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
        """Number of requests written so far."""
        self.idle_since = 0.0
        """Monotonic seconds; kept by the pool."""
        self.failure: UpstreamError | None = None
        self.died_unanswered = False
        """Whether the peer closed without one byte of an answer."""

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
        """Write one request. Deadlines are monotonic seconds.

        Nothing is held back while the transport's buffer is full, which copies nothing: waiting for the answer is
        waiting for the drain.
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
        """Write the next piece of a long body, and see to it that the one after it follows."""
        piece, self._unsent = self._unsent[:_WRITE_AT_ONCE_BYTES], self._unsent[_WRITE_AT_ONCE_BYTES:]
        if self._transport.is_closing():
            self._unsent = memoryview(b"")
            return
        self._transport.write(piece)
        if self._unsent:
            self._loop.call_soon(self._send_on)

    async def first_byte(self) -> None:
        """Wait for status and headers, and for the first byte of the body where the call streams and the status is 200.

        Raises:
            ReplyBroken: the connection broke before that.
            UpstreamTimeout: ``first_byte`` or ``total``.
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
        """Wait until `take_body` has something to give."""
        if not self._is_ready():
            self._stalls.paused_at = now
            self._phase_deadline = now + self._stalls.idle_s
            self._waiter = waiter = self._loop.create_future()
            await waiter

    def take_body(self) -> bytes:
        """Return everything that has come; ``b""`` at the end of the body.

        Raises:
            ReplyBroken: the connection broke and all that came before has been taken.
            UpstreamTimeout: ``idle`` or ``total``, likewise.
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
        """Allow a pause of *idle_s* from now on, and for the wait under way."""
        self._stalls.idle_s = idle_s
        if self._is_pausing():
            self._phase_deadline = self._stalls.paused_at + idle_s

    def is_streaming(self) -> bool:
        """Return whether an answer has begun, and more of it may come."""
        return self._is_lent and self._phase == "idle" and not self.response.is_complete

    def take_arrivals(self) -> int:
        """Return how often something of the answer has come since the last call."""
        return self._stalls.take_arrivals()

    def compare(self, arrivals: int, others: int, others_arrivals: int) -> None:
        """Note what the worker's *others* streams got while this one got *arrivals*."""
        self._stalls.compare(arrivals, others, others_arrivals, waits=self._waiter is not None)

    def inquire(self, engine: EngineProgress, now: float) -> None:
        """Note what *engine* generates, if a pause may be a stall."""
        if self._may_have_stalled():
            self._stalls.inquire(engine, now)

    def forgive(self, late_s: float) -> None:
        """Do not count *late_s* as a pause of the worker: the gateway could not have heard anything in that time."""
        if self._may_have_stalled():
            self._phase_deadline += late_s

    def interrupt(self, error: UpstreamError) -> None:
        """Cut the exchange: the wait under way, or the next `take_body`, ends with *error*, whatever came before."""
        self.response.pieces.clear()
        self.response.is_complete = False
        self.failure = error
        self._fail(error)

    def is_reusable(self) -> bool:
        """Return whether the answer is complete, the request is out, and both sides want to go on."""
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
        """End an exchange: no deadline runs, and a byte from the peer closes the connection."""
        self._is_lent = False
        self._total_deadline = math.inf
        self.response.pieces.clear()
        self.idle_since = now

    def abort(self) -> None:
        """Cut the connection at once, which makes a worker stop generating."""
        self._fail(ReplyBroken(f"worker {self._worker_id}: the call was given up"))

    def abandon(self) -> None:
        """Cut the exchange if nothing of its answer is here yet: its caller may still ask another worker."""
        if self._is_lent and self._waiter is not None and self._phase == "first_byte":
            self._fail(ReplyBroken(f"worker {self._worker_id}: found down before it answered"))

    def expire(self, now: float) -> None:
        """Cut the exchange if one of its deadlines has passed."""
        if not self._is_lent or self.response.is_complete:
            return
        if now >= self._total_deadline:
            self._fail(UpstreamTimeout(f"worker {self._worker_id}: not done within the total time", phase="total"))
        elif self._waiter is None or now < self._phase_deadline:
            return
        elif self._phase == "first_byte":
            self._fail(UpstreamTimeout(f"worker {self._worker_id}: no first byte in time", phase="first_byte"))
        elif self._stalls.has_stalled(now):
            self._fail(UpstreamTimeout(f"worker {self._worker_id}: silent for too long", phase="idle"))

    def _is_pausing(self) -> bool:
        return self._waiter is not None and self._phase == "idle"

    def _may_have_stalled(self) -> bool:
        return self._is_pausing() and self._stalls.is_stricter()

    def _is_ready(self) -> bool:
        """Return whether as much of the answer has come as the call waits for."""
        response = self.response
        if response.is_complete or self.failure is not None:
            return True
        if not response.has_head:
            return False
        if response.pieces or not self._needs_body:
            return True
        return self._phase == "first_byte" and response.status != 200

    def _the_failure(self) -> UpstreamError:
        return self.failure or ReplyBroken(f"worker {self._worker_id}: the answer ended too early")

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
            where = "in the body" if response.has_head else "before status and headers"
            if exc is not None or not response.close():
                self.died_unanswered = not response.has_head and response.unread_bytes == 0
                self.failure = ReplyBroken(f"worker {self._worker_id}: connection closed {where}")
        self._wake()
        self._on_lost(self)
