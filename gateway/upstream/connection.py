"""One HTTP/1.1 connection to a worker.

1. One exchange at a time: `begin` writes the request, `first_byte` and `wait_for_body` wait, `take` hands out.
2. The parser's callbacks only note what came; `data_received` decides once per packet whether anybody has to wake up.
3. No task and no timer is started here: deadlines are plain numbers that the pool's sweep hands to `expire`.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Final, Literal

import httptools

from gateway.backends.backend import Headers
from gateway.errors import ReplyBroken, UpstreamError, UpstreamTimeout
from gateway.upstream.engine_progress import EngineProgress
from gateway.upstream.headers import end_to_end, ends_with_connection, is_plainly_framed
from gateway.upstream.limits import Limits

_JOIN_UP_TO_BYTES: Final = (
    16_384  # copying this much costs about 1 us, less than a second buffer on its way through the transport
)

_WRITE_AT_ONCE_BYTES: Final = 256 * 1024
"""The kernel takes them in 0.1 ms; of a longer body it gets so much in each turn of the loop."""

OTHERS_ARRIVALS: Final = 10.0
"""Pieces that each other stream of a worker gets, on average, while one that pauses has lost its turn for good. By
default a pause is 20 usual gaps, so streams that go on at half their pace have as many."""
LONGEST_PAUSE: Final = 10.0
"""Pauses that a stream may make while all streams of its worker are silent, or while it is the only one and the engine
is seen to generate: an engine that is held up for seconds is not dead, and what it generates may be held back."""
READINGS: Final = 5.0
"""Readings of the engine that are asked for during one pause of a stream that is alone on its worker. Two decide, so
some may be late. By default a fifth of a pause is four usual gaps, in which an engine that works generates tokens."""


class Connection(asyncio.Protocol):
    """Made by the pool, lent to one call at a time."""

    __slots__ = (
        "_arrivals",
        "_generated_at",
        "_has_company",
        "_has_head",
        "_idle_s",
        "_is_head_request",
        "_is_interim",
        "_is_lent",
        "_is_paused",
        "_limits",
        "_loop",
        "_needs_body",
        "_on_lost",
        "_others_arrivals",
        "_parser",
        "_patience_s",
        "_phase",
        "_phase_deadline",
        "_received",
        "_total_deadline",
        "_transport",
        "_unread_bytes",
        "_unsent",
        "_waiter",
        "_waits_since",
        "_worker_id",
        "died_unanswered",
        "exchanges",
        "failure",
        "headers",
        "idle_since",
        "is_complete",
        "keep_alive",
        "on_body",
        "pieces",
        "status",
    )

    def __init__(
        self,
        worker_id: str,
        *,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        on_lost: Callable[["Connection"], None],
    ) -> None:
        self._worker_id = worker_id
        self._loop = loop
        self._limits = limits
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[None] | None = None
        self._is_lent = False
        self._total_deadline = math.inf
        self._waits_since = 0.0
        self._idle_s = self._patience_s = math.inf
        self._arrivals = 0
        self._others_arrivals = 0.0
        self._has_company = False
        self._generated_at = -math.inf
        self._unsent = memoryview(b"")
        self.exchanges = 0
        """Requests written so far."""
        self.idle_since = 0.0
        """Monotonic seconds; kept by the pool."""
        self.failure: UpstreamError | None = None
        self.died_unanswered = False
        """The peer closed without one byte of an answer."""
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append  # the parser calls list.append itself: no frame of ours per piece
        self._parser = httptools.HttpResponseParser(self)
        self._forget_exchange()

    def _forget_exchange(self) -> None:
        self.status = 0
        self.headers: Headers = []
        self.is_complete = False
        self.keep_alive = False
        self._received: Headers = []
        self._has_head = False
        self._is_interim = False
        self._is_paused = False
        self._unread_bytes = 0

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
        self._forget_exchange()
        self._is_lent = True
        self._is_head_request = is_head_request
        self._needs_body = streams
        self._phase: Literal["first_byte", "idle"] = "first_byte"
        self._phase_deadline = first_byte_deadline
        self._total_deadline = total_deadline
        self._idle_s = self._patience_s = idle_s
        self._arrivals = 0
        self._others_arrivals = 0.0
        self._has_company = False
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
        if not self._has_head or (self._needs_body and not self.pieces and not self.is_complete):
            raise self._the_failure()
        self._needs_body = True
        self._phase = "idle"

    async def wait_for_body(self, now: float) -> None:
        """Wait until `take` has something to give."""
        if not self._is_ready():
            self._waits_since = now
            self._phase_deadline = now + self._idle_s
            self._waiter = waiter = self._loop.create_future()
            await waiter

    def take(self) -> bytes:
        """Everything that has come; ``b""`` at the end of the body.

        Raises:
            ReplyBroken: the connection broke and all that came before has been taken.
            UpstreamTimeout: ``idle`` or ``total``, likewise.
        """
        pieces = self.pieces
        if pieces:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            self._unread_bytes = 0
            if self._is_paused:
                self._resume()
            return data
        if self.is_complete:
            return b""
        raise self._the_failure()

    def expect_within(self, idle_s: float) -> None:
        """From now on, and for the wait under way, *idle_s* is how long a pause may be."""
        self._idle_s = idle_s
        if self._waiter is not None and self._phase == "idle":
            self._phase_deadline = self._waits_since + idle_s

    def is_streaming(self) -> bool:
        """An answer has begun, and more of it may come."""
        return self._is_lent and self._phase == "idle" and not self.is_complete

    def take_arrivals(self) -> int:
        """How often something of the answer has come since this was asked last."""
        arrivals, self._arrivals = self._arrivals, 0
        return arrivals

    def compare(self, arrivals: int, others: int, others_arrivals: int) -> None:
        """Take note of what the worker's *others* streams got while this one got *arrivals*."""
        self._has_company = others > 0
        if arrivals or self._waiter is None:
            self._others_arrivals = 0.0
        elif others:
            self._others_arrivals += others_arrivals / others

    def inquire(self, engine: EngineProgress, now: float) -> None:
        """In a pause of a stream that is alone on its worker: have *engine* read, and note what its readings say."""
        if self._is_in_doubt() and not self._has_company and now >= self._waits_since + self._idle_s / READINGS:
            engine.ask(now, every_s=self._idle_s / READINGS)
            self._generated_at = engine.generated_at(self._waits_since)

    def forgive(self, late_s: float) -> None:
        """For *late_s* nobody here could have heard of what came: that is no pause of the worker's."""
        if self._is_in_doubt():
            self._phase_deadline += late_s

    def interrupt(self, error: UpstreamError) -> None:
        """Cut the exchange: the wait under way, or the next `take`, ends with *error*, whatever has come before."""
        self.pieces.clear()
        self.is_complete = False
        self.failure = error
        self._fail(error)

    def is_reusable(self) -> bool:
        """The answer is complete, the request is out, and both sides want to go on."""
        return (
            self.is_complete
            and self.keep_alive
            and not self._unsent
            and not self._transport.is_closing()
            and self._transport.get_write_buffer_size() == 0
        )

    def is_open(self) -> bool:
        return not self._transport.is_closing()

    def rest(self, now: float) -> None:
        """Between two exchanges: no deadline runs, and a byte from the peer is the end of the connection."""
        self._is_lent = False
        self._total_deadline = math.inf
        self.pieces.clear()
        self.idle_since = now

    def abort(self) -> None:
        """Cut the connection at once; this is what tells a worker to stop generating."""
        self._fail(ReplyBroken(f"worker {self._worker_id}: the call was given up"))

    def abandon(self) -> None:
        """Cut the exchange if nothing of its answer is here yet: its caller may still ask somebody else."""
        if self._is_lent and self._waiter is not None and self._phase == "first_byte":
            self._fail(ReplyBroken(f"worker {self._worker_id}: found down before it answered"))

    def expire(self, now: float) -> None:
        """Cut the exchange if one of its deadlines has passed."""
        if not self._is_lent or self.is_complete:
            return
        if now >= self._total_deadline:
            self._fail(UpstreamTimeout(f"worker {self._worker_id}: not done within the total time", phase="total"))
        elif self._waiter is not None and now >= self._phase_deadline and self._is_beyond_doubt(now):
            what = "no first byte in time" if self._phase == "first_byte" else "silent for too long"
            self._fail(UpstreamTimeout(f"worker {self._worker_id}: {what}", phase=self._phase))

    def _is_in_doubt(self) -> bool:
        """A pause is under way, and less than the worker's own patience is asked: gaps alone do not decide that."""
        return self._waiter is not None and self._phase == "idle" and self._idle_s < self._patience_s

    def _is_beyond_doubt(self, now: float) -> bool:
        """Whether a pause that has lasted too long is a stall. Five cases:

        1. It has lasted as long as the worker's own patience, or `LONGEST_PAUSE` times what is asked: yes.
        2. The worker's other streams go on: yes. Whatever the engine generates is theirs, so its counter says nothing.
        3. The other streams pause as well: no. The machine is busy or the engine is held up, and that shows in time.
        4. The stream is alone, and the engine was seen to generate less than one such pause ago: no.
        5. It is alone, and the engine was not seen to generate, or could not be read in time: yes.
        """
        if not self._is_in_doubt() or now >= self._waits_since + LONGEST_PAUSE * self._idle_s:
            return True
        if self._has_company:
            return self._others_arrivals >= OTHERS_ARRIVALS
        return now >= self._generated_at + self._idle_s

    def _is_ready(self) -> bool:
        if self.is_complete or self.failure is not None:
            return True
        return self._has_head and (not self._needs_body or bool(self.pieces))

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
        self._arrivals += 1
        if not self._is_lent or self.is_complete:
            self.keep_alive = False
            self._transport.abort()
            return
        self._unread_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._parsing_failed(exc)
        if not self.is_complete:
            self._check_unread()
        if self._waiter is not None and self._is_ready():
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_lent and not self.is_complete and self.failure is None:
            if exc is None and self._has_head and ends_with_connection(self._received):
                self.is_complete = True
            else:
                where = "in the body" if self._has_head else "before status and headers"
                self.died_unanswered = not self._has_head and self._unread_bytes == 0
                self.failure = ReplyBroken(f"worker {self._worker_id}: connection closed {where}")
        self._wake()
        self._on_lost(self)

    def _parsing_failed(self, exc: Exception) -> None:
        self.keep_alive = False
        if self.is_complete:
            return  # the answer itself was fine; what follows it costs only the connection
        where = "in the body" if self._has_head else "in status and headers"
        reason = exc.__context__ if isinstance(exc.__context__, _HeadTooLarge | _UnknownCoding) else "not HTTP/1.1"
        self._fail(ReplyBroken(f"worker {self._worker_id}: {reason} {where}"))

    def _check_unread(self) -> None:
        """Bound what is held: body that nobody takes stops the reading, framing without any body is an attack."""
        if self.pieces:
            if self._unread_bytes > self._limits.high_water_bytes and not self._is_paused and self.is_open():
                self._is_paused = True
                self._transport.pause_reading()
        elif self._unread_bytes > self._limits.max_head_bytes:
            self._fail(ReplyBroken(f"worker {self._worker_id}: too many bytes of headers or framing"))

    # httptools callbacks

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise _SecondAnswer

    def on_header(self, name: bytes, value: bytes) -> None:
        self._received.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        received = self._received
        self._is_interim = status < 200
        if len(received) > self._limits.max_headers:
            raise _HeadTooLarge("too many header fields")
        if not is_plainly_framed(received):
            raise _UnknownCoding("a transfer coding other than chunked")
        # A head cannot be longer than all that came with it, so most need no counting.
        if self._unread_bytes > self._limits.max_head_bytes and _size(received) > self._limits.max_head_bytes:
            raise _HeadTooLarge("too many bytes")
        if self._is_interim:
            received.clear()
            return
        self.status = status
        self.headers = end_to_end(received)
        self._has_head = True
        if status != 200:
            self._needs_body = False
        if self._is_head_request:
            self.is_complete = True  # and not kept alive: the parser cannot be told that no body follows

    def on_message_complete(self) -> None:
        if not self._is_interim and not self.is_complete:
            self.is_complete = True
            self.keep_alive = self._parser.should_keep_alive()  # at the end: a trailer may say close


class _SecondAnswer(Exception):  # stops the parser; never leaves this module
    """Bytes of another answer follow the one that was asked for."""


class _UnknownCoding(Exception):  # as above
    """The body is in a transfer coding that nobody asked for, and that no field downstream would tell of."""


class _HeadTooLarge(Exception):  # as above
    """The header fields are more than the limits allow."""


def _size(headers: Headers) -> int:
    return sum(len(name) + len(value) for name, value in headers)
