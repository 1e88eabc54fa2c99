"""Pool of keep-alive connections to one worker.

1. `_slots` counts connections that are open or being opened. Each slot is released exactly once, in `_free_slot`.
2. No connection is idle while a call waits for a slot. A connection that becomes free goes to the first waiter.
3. One timer serves all connections. `sweep` checks deadlines and closes connections that have been idle too long.
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
    """Pool that lends connections to calls. The most recently used one is lent first, so that unused ones expire."""

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
        """Create an empty pool. The first call opens the first connection.

        Args:
            worker_id: Id of the worker, for error messages.
            origin: Address of the worker.
            connect_s: Time limit in seconds for name lookup, TCP connection and TLS handshake together.
            max_connections: Maximum number of connections, or None for no limit. Further calls wait in order.
            max_idle: Maximum number of idle connections. Further ones are closed when their call ends.
            reuse_within_s: Seconds after which an idle connection is closed. They must be below the worker's keep-alive
                time, which is 5 s for uvicorn (``timeout_keep_alive``) and therefore for vLLM and SGLang.
            sweep_s: Seconds between two checks of all deadlines, and thus the delay of timeouts.
            limits: Memory limits of one response.
            ssl_context: TLS settings for ``https``. If None, the system's certificate authorities are trusted.
            engine: Progress of the worker's engine, or None if it is unknown.
            clock: Function that returns monotonic seconds.
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
        """Return the number of open connections, both busy and idle."""
        return len(self._open)

    @property
    def connections_idle(self) -> int:
        return len(self._idle)

    @property
    def is_empty(self) -> bool:
        """Return whether no connection is open or being opened."""
        return self._slots == 0

    @property
    def calls_waiting(self) -> int:
        """Return the number of calls that wait because *max_connections* is reached."""
        return len(self._waiters)

    def take_idle(self, now: float) -> UpstreamConnection | None:
        """Return the most recently used idle connection that is still usable, or None."""
        while self._idle:
            connection = self._idle.pop()
            if now - connection.idle_since < self._reuse_within_s and connection.is_open():
                return connection
            self.discard(connection)
        return None

    async def open(self, *, deadline: float) -> UpstreamConnection:
        """Return a new connection or, if the connection limit is reached, the next one that becomes free.

        *deadline* limits the wait for a free connection, in monotonic seconds.

        Raises:
            ConnectFailed: if the connection is refused or fails in name lookup, routing or TLS, or the pool is closed.
            UpstreamTimeout: with phase ``connect``, or ``first_byte`` if no connection becomes free before *deadline*.
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
        """Keep *connection* for the next call if it is reusable. Otherwise, close it."""
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
        """Close *connection* at once and give its slot to the next waiting call."""
        connection.abort()
        self._forget(connection)

    def sweep(self, now: float) -> None:
        """Abort exchanges whose deadline has passed, and close connections that have been idle for too long."""
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
        """Pass on to each stream the amount of data that the worker's other streams received since the last sweep."""
        streams = [connection for connection in self._open if connection.is_streaming()]
        arrived = [connection.take_arrivals() for connection in streams]
        total = sum(arrived)
        for connection, own in zip(streams, arrived, strict=True):
            connection.compare(own, len(streams) - 1, total - own)

    def abandon_unanswered(self) -> None:
        """Fail all calls that have received no part of a response, including calls that wait for a connection."""
        while (waiter := self._next_waiter()) is not None:
            waiter.set_exception(ConnectFailed(f"worker {self._worker_id}: its health checks fail"))
        for connection in list(self._open):
            connection.abandon()

    def retire(self) -> None:
        """Close idle connections now, and each busy connection as soon as its call ends."""
        self._max_idle = 0
        while self._idle:
            self.discard(self._idle.pop())

    def close(self) -> None:
        """Close all connections, including those in use. Calls that wait for a connection get `ConnectFailed`."""
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
        """Open a connection for a slot that already counts as used."""
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
            raise ConnectFailed(
                f"worker {self._worker_id}: connection failed (the worker closed the connection at once)"
            )
        self._keep_sweeping(loop)
        return connection

    def _raise_as_upstream_error(self, exc: BaseException) -> None:
        """Translate a connection timeout or failure into an upstream error. Other exceptions, such as cancellations,
        are not changed.
        """
        match exc:
            case TimeoutError():
                message = f"worker {self._worker_id}: connect timed out after {self._connect_s:g} s"
                raise UpstreamTimeout(message, phase="connect") from exc
            case OSError():
                raise ConnectFailed(f"worker {self._worker_id}: connection failed ({type(exc).__name__})") from exc

    async def _wait_turn(self, deadline: float) -> UpstreamConnection | None:
        """Wait for a free connection. Return None if the caller has received a slot and must open a connection."""
        turn: asyncio.Future[UpstreamConnection | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        try:
            async with asyncio.timeout(None if deadline == math.inf else max(0.0, deadline - self._clock())):
                connection = await turn
        except BaseException as exc:
            self._leave_queue(turn)
            if type(exc) is TimeoutError:
                message = f"worker {self._worker_id}: all {self._max_connections} connections are busy"
                raise UpstreamTimeout(message, phase="first_byte") from exc
            raise
        if connection is not None and not connection.is_open():  # lost between the hand-over and this line
            return await self.open(deadline=deadline)
        return connection

    def _leave_queue(self, turn: "asyncio.Future[UpstreamConnection | None]") -> None:
        """Pass on a connection or slot that was handed over at the moment when the wait was canceled."""
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
        """Give a free slot to the next waiting call, or release the slot if no call waits."""
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
        return ConnectFailed(f"worker {self._worker_id}: the connection pool is closed")


def _ssl_context(given: ssl.SSLContext | None) -> ssl.SSLContext:
    if given is not None:
        return given
    context = accepting_missing_identifiers(ssl.create_default_context())
    context.set_alpn_protocols(["http/1.1"])
    return context
