"""Model server that is reached over HTTP/1.1, such as vLLM, SGLang or a Dynamo frontend."""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Final

from gateway.backends.backend import Call
from gateway.backends.request_head import RequestHead
from gateway.backends.upstream.connection import UpstreamConnection
from gateway.backends.upstream.engine_progress import EngineProgress
from gateway.backends.upstream.origin import Origin
from gateway.backends.upstream.pool import ConnectionPool
from gateway.backends.upstream.reply import HttpReply
from gateway.backends.upstream.response_parser import ResponseLimits
from gateway.backends.upstream.timeouts import Timeouts
from gateway.protocol.errors import ReplyBroken

_STALE_WITHIN_S = 1.0
"""Seconds within which the failure of a reused connection counts as an expired connection. After a later failure, the
worker might have processed the request, so the proxy decides whether to retry.
"""

_YIELD_BYTES: Final = 64 * 1024
"""Size in bytes of a body above which the event loop does other work first, because a choice of a worker came before,
and writing 220 kB takes half a millisecond.
"""


class HttpWorker:
    """Backend that sends calls to one worker. Implements `gateway.backends.backend.Backend`."""

    def __init__(
        self,
        id: str,  # noqa: A002  # the name that Backend gives it
        url: str,
        *,
        api_key: str | None = None,
        timeouts: Timeouts | None = None,
        max_connections: int | None = None,
        max_idle: int = 256,
        reuse_within_s: float = 4.0,
        sweep_s: float = 0.2,
        limits: ResponseLimits | None = None,
        ssl_context: ssl.SSLContext | None = None,
        engine: EngineProgress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a client for the worker at *url* without any I/O. For the arguments from *max_connections* on, see
        `ConnectionPool`.

        Raises:
            ValueError: if *url* or *api_key* is invalid.
        """
        origin = Origin.from_url(url)
        self.id = id
        self.url = url
        self._request_head = RequestHead(origin, api_key=api_key)
        self._timeouts = timeouts or Timeouts()
        self._clock = clock
        self._pool = ConnectionPool(
            id,
            origin,
            connect_s=self._timeouts.connect_s,
            max_connections=max_connections,
            max_idle=max_idle,
            reuse_within_s=reuse_within_s,
            sweep_s=sweep_s,
            limits=limits,
            ssl_context=ssl_context,
            engine=engine,
            clock=clock,
        )

    @property
    def connections_open(self) -> int:
        """Return the number of open connections to the worker, both busy and idle."""
        return self._pool.connections_open

    @property
    def connections_idle(self) -> int:
        return self._pool.connections_idle

    @property
    def calls_waiting(self) -> int:
        """Return the number of calls that wait because *max_connections* is reached."""
        return self._pool.calls_waiting

    @property
    def is_unused(self) -> bool:
        """Return whether no connection to the worker is open or being opened."""
        return self._pool.is_empty

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> HttpReply:
        """Send *call* (see `Backend.send`). If the worker has closed the reused connection, retry on a new one.

        *first_byte_s* is counted from writing the request. Connecting has its own time limit.
        """
        if len(call.body) > _YIELD_BYTES:
            await asyncio.sleep(0)
        started = self._clock()
        connection = self._pool.take_idle(started) or await self._pool.open(deadline=self._first_byte_deadline(started))
        is_again = False
        while True:
            try:
                self._begin(connection, call, started, first_byte_s)
                await connection.first_byte()
                return HttpReply(connection, self._pool.give_back, self._clock, idle_s=self._timeouts.idle_s)
            except BaseException as error:
                self._pool.give_back(connection)
                if is_again or not isinstance(error, ReplyBroken) or not self._was_stale(connection, started):
                    raise
            is_again = True
            connection = await self._pool.open(deadline=self._first_byte_deadline(started))

    def addressed(self, call: Call) -> Call:
        """Return *call* with the worker's base path and API key (see `WorkerBackend.addressed`)."""
        return self._request_head.addressed(call)

    def abandon_unanswered(self) -> None:
        """Fail all calls that have received no part of a response (see `WorkerBackend.abandon_unanswered`)."""
        self._pool.abandon_unanswered()

    def retire(self) -> None:
        """Stop the reuse of connections to the worker (see `WorkerBackend.retire`)."""
        self._pool.retire()

    async def aclose(self) -> None:
        """Close all connections to the worker, including those in use. Later calls raise `ConnectFailed`."""
        self._pool.close()

    def _begin(self, connection: UpstreamConnection, call: Call, started: float, first_byte_s: float | None) -> None:
        deadline = self._first_byte_deadline(started)
        if first_byte_s is not None:
            deadline = min(deadline, self._clock() + first_byte_s)
        connection.begin(
            self._request_head.encode(call),
            call.body,
            streams=call.streams,
            is_head_request=call.method == b"HEAD",
            first_byte_deadline=deadline,
            total_deadline=started + self._timeouts.total_s,
            idle_s=self._timeouts.idle_s,
        )

    def _first_byte_deadline(self, started: float) -> float:
        first_byte_s = self._timeouts.first_byte_s
        return started + (self._timeouts.total_s if first_byte_s is None else first_byte_s)

    def _was_stale(self, connection: UpstreamConnection, started: float) -> bool:
        return connection.died_unanswered and connection.exchanges > 1 and self._clock() - started < _STALE_WITHIN_S
