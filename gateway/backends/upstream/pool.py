"""The connections to one worker, kept alive between calls.

1. `_slots` counts connections that are open or being opened; each is given back exactly once, in `_free_slot`.
2. While somebody waits for a slot nothing is idle: what becomes free goes to the first waiter.
3. One timer serves all: `sweep` compares deadlines and closes what has been idle for too long.
"""

import asyncio
import math
import ssl
import time
from collections import deque
from collections.abc import Callable

from gateway.backends.upstream.connection import UpstreamConnection
from gateway.backends.upstream.engine_progress import EngineProgress
from gateway.backends.upstream.origin import Origin
from gateway.backends.upstream.response_parser import ResponseLimits
from gateway.backends.upstream.tls import accepting_missing_identifiers
from gateway.protocol.errors import ConnectFailed, UpstreamTimeout


class ConnectionPool:
    """Lends connections, the most recently used first, so that idle ones can expire."""

    def __init__(
        self,
        worker_id: str,
        origin: Origin,
        *,
        connect_s: float,
        max_connections: int | None = None,
        max_idle: int = 256,
        reuse_within_s: float = 4.0,
        sweep_s: float = 0.2,
        limits: ResponseLimits | None = None,
        ssl_context: ssl.SSLContext | None = None,
        engine: EngineProgress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A pool without connections; the first call opens the first one.

        Args:
            worker_id: For messages.
            origin: Where to connect.
            connect_s: For name lookup, TCP and TLS handshake together.
            max_connections: More calls than this wait, first come first served. None: no limit.
            max_idle: More than this are closed when they become free.
            reuse_within_s: A connection idle for longer is closed, not reused. Must stay below the worker's own
                keep-alive time: uvicorn, and so vLLM and SGLang, closes after 5 s (``timeout_keep_alive``).
            sweep_s: How often deadlines are looked at, and so how late they may fire.
            limits: What one answer may hold in memory.
            ssl_context: For ``https``; None verifies against the system's certificates.
            engine: Progress of the worker's engine; None: it is not read.
            clock: Monotonic seconds.
        """
        self._worker_id = worker_id
        self._origin = origin
        self._connect_s = connect_s
        self._max_connections = math.inf if max_connections is None else max_connections
        self._max_idle = max_idle
        self._reuse_within_s = reuse_within_s
        self._sweep_s = sweep_s
        self._limits = limits or ResponseLimits()
        self._ssl = _ssl_context(ssl_context) if origin.is_tls else None
        self._engine = engine
        self._clock = clock
        self._open: set[UpstreamConnection] = set()
        self._idle: list[UpstreamConnection] = []
        self._slots = 0
        self._waiters: deque[asyncio.Future[UpstreamConnection | None]] = deque()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._swept_at: float | None = None

    @property
    def connections_open(self) -> int:
        """Open connections, lent and idle."""
        return len(self._open)

    @property
    def connections_idle(self) -> int:
        return len(self._idle)

    @property
    def is_empty(self) -> bool:
        """No connection is open, none is being opened."""
        return self._slots == 0

    @property
    def calls_waiting(self) -> int:
        """Calls held back by *max_connections*."""
        return len(self._waiters)

    def take_idle(self, now: float) -> UpstreamConnection | None:
        """The most recently used idle connection, if one is still good."""
        while self._idle:
            connection = self._idle.pop()
            if now - connection.idle_since < self._reuse_within_s and connection.is_open():
                return connection
            self.discard(connection)
        return None

    async def open(self, *, deadline: float) -> UpstreamConnection:
        """A connection of the caller's own: a fresh one, or, where all slots are taken, the first that becomes free.

        *deadline* is monotonic seconds and bounds the waiting for a slot.

        Raises:
            ConnectFailed: refused, unreachable, no such name, bad certificate, or the pool is closed.
            UpstreamTimeout: ``connect``, or ``first_byte`` when no slot became free before *deadline*.
        """
        if self._is_closed:
            raise self._closed()
        if self._slots >= self._max_connections and self._idle:
            self.discard(self._idle.pop(0))
        if self._slots < self._max_connections:
            self._slots += 1
            return await self._connect()
        connection = await self._wait_turn(deadline)
        return connection or await self._connect()

    def give_back(self, connection: UpstreamConnection) -> None:
        """Keep *connection* for the next call if it can carry one, cut it otherwise."""
        if connection not in self._open:
            return
        if self._is_closed or not connection.is_reusable():
            self.discard(connection)
            return
        connection.rest(self._clock())
        waiter = self._next_waiter()
        if waiter is not None:
            waiter.set_result(connection)
        elif len(self._idle) < self._max_idle:
            self._idle.append(connection)
        else:
            self.discard(connection)

    def discard(self, connection: UpstreamConnection) -> None:
        """Cut *connection* at once and give its slot to the next."""
        connection.abort()
        self._forget(connection)

    def sweep(self, now: float) -> None:
        """Cut exchanges whose deadline has passed and close connections that were idle for too long."""
        late_s = 0.0 if self._swept_at is None else now - self._swept_at - self._sweep_s
        self._swept_at = now
        self._compare()
        for connection in list(self._open):
            if late_s > 0.0:
                connection.forgive(late_s)
            if self._engine is not None:
                connection.inquire(self._engine, now)
            connection.expire(now)
        old = [connection for connection in self._idle if now - connection.idle_since >= self._reuse_within_s]
        for connection in old:
            self._idle.remove(connection)
            self.discard(connection)

    def _compare(self) -> None:
        """Tell each stream how the others of this worker have fared since the last sweep."""
        streams = [connection for connection in self._open if connection.is_streaming()]
        arrived = [connection.take_arrivals() for connection in streams]
        total = sum(arrived)
        for connection, own in zip(streams, arrived, strict=True):
            connection.compare(own, len(streams) - 1, total - own)

    def abandon_unanswered(self) -> None:
        """Fail every call that has nothing of its answer, those that wait for a slot as well."""
        while (waiter := self._next_waiter()) is not None:
            waiter.set_exception(ConnectFailed(f"worker {self._worker_id}: found down"))
        for connection in list(self._open):
            connection.abandon()

    def retire(self) -> None:
        """Keep no connection for later; the calls in flight go on."""
        self._max_idle = 0
        while self._idle:
            self.discard(self._idle.pop())

    def close(self) -> None:
        """Cut everything, calls in flight as well; calls that wait for a slot get `ConnectFailed`."""
        self._is_closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        while (waiter := self._next_waiter()) is not None:
            waiter.set_exception(self._closed())
        self._idle.clear()
        for connection in list(self._open):
            self.discard(connection)

    async def _connect(self) -> UpstreamConnection:
        """Open a connection on a slot that is already counted."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_s):
                _, connection = await loop.create_connection(
                    lambda: UpstreamConnection(self._worker_id, loop=loop, limits=self._limits, on_lost=self._lost),
                    self._origin.host,
                    self._origin.port,
                    ssl=self._ssl,
                )
        except BaseException as exc:
            self._free_slot()
            self._raise_as_upstream_error(exc)
            raise
        self._open.add(connection)
        if self._is_closed:
            self.discard(connection)
            raise self._closed()
        if not connection.is_open():
            self._forget(connection)
            raise ConnectFailed(f"worker {self._worker_id}: connect failed (closed at once)")
        self._keep_sweeping(loop)
        return connection

    def _raise_as_upstream_error(self, exc: BaseException) -> None:
        """Three cases: out of time, no connection to be had, and all else (a cancellation), which stays what it is."""
        match exc:
            case TimeoutError():
                message = f"worker {self._worker_id}: no connection within {self._connect_s:g} s"
                raise UpstreamTimeout(message, phase="connect") from exc
            case OSError():
                raise ConnectFailed(f"worker {self._worker_id}: connect failed ({type(exc).__name__})") from exc

    async def _wait_turn(self, deadline: float) -> UpstreamConnection | None:
        """A connection that became free, or None: a slot is counted for the caller, who opens his own."""
        turn: asyncio.Future[UpstreamConnection | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        try:
            async with asyncio.timeout(None if deadline == math.inf else max(0.0, deadline - self._clock())):
                connection = await turn
        except BaseException as exc:
            self._leave_queue(turn)
            if type(exc) is TimeoutError:
                message = f"worker {self._worker_id}: all {self._max_connections} connections busy"
                raise UpstreamTimeout(message, phase="first_byte") from exc
            raise
        if connection is not None and not connection.is_open():  # lost between the hand-over and this line
            return await self.open(deadline=deadline)
        return connection

    def _leave_queue(self, turn: "asyncio.Future[UpstreamConnection | None]") -> None:
        """Pass on what was handed over in the same moment as the cancellation."""
        if turn in self._waiters:
            self._waiters.remove(turn)
        if not turn.done() or turn.cancelled() or turn.exception() is not None:
            return
        connection = turn.result()
        if connection is None:
            self._free_slot()
        else:
            self.give_back(connection)

    def _next_waiter(self) -> "asyncio.Future[UpstreamConnection | None] | None":
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def _lost(self, connection: UpstreamConnection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)
        self._forget(connection)

    def _forget(self, connection: UpstreamConnection) -> None:
        if connection in self._open:
            self._open.remove(connection)
            self._free_slot()

    def _free_slot(self) -> None:
        """Hand the slot on while it is counted, or stop counting it."""
        waiter = self._next_waiter()
        if waiter is not None:
            waiter.set_result(None)
        else:
            self._slots -= 1

    def _keep_sweeping(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_later(self._sweep_s, self._on_sweep_timer, loop)

    def _on_sweep_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweep_timer = None
        self.sweep(self._clock())
        if self._open:
            self._keep_sweeping(loop)
        else:
            self._swept_at = None  # no sweep until there is a connection again

    def _closed(self) -> ConnectFailed:
        return ConnectFailed(f"worker {self._worker_id}: its connections are closed")


def _ssl_context(given: ssl.SSLContext | None) -> ssl.SSLContext:
    if given is not None:
        return given
    context = accepting_missing_identifiers(ssl.create_default_context())
    context.set_alpn_protocols(["http/1.1"])
    return context
