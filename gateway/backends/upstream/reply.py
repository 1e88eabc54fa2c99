"""HTTP response of a worker, as the proxy reads it."""

import math
import time
from collections.abc import Callable

from gateway.backends.upstream.connection import UpstreamConnection
from gateway.protocol.errors import ReplyBroken, UpstreamError
from gateway.protocol.headers import Headers


class HttpReply:
    """Response that is read from a lent connection. Implements `gateway.backends.backend.Reply`."""

    __slots__ = ("_clock", "_connection", "_give_back", "_idle_s", "_is_ended", "_response", "headers", "status")

    def __init__(
        self,
        connection: UpstreamConnection,
        give_back: Callable[[UpstreamConnection], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        idle_s: float = math.inf,
    ) -> None:
        """Create a reply for *connection*. *idle_s* is the longest pause in seconds that the settings allow."""
        response = connection.response
        self.status: int = response.status
        self.headers: Headers = response.headers
        self._response = response
        self._connection: UpstreamConnection | None = connection
        self._give_back = give_back
        self._clock = clock
        self._idle_s = idle_s
        self._is_ended = False

    @property
    def ended(self) -> bool:
        if self._connection is None:
            return self._is_ended
        return self._response.is_complete and not self._response.pieces

    async def read(self) -> bytes:
        """Return all response data that arrived since the last call. Wait only if no data has arrived. See `Reply.read`
        for the errors.
        """
        connection = self._connection
        if connection is None:
            if self._is_ended:
                return b""
            raise ReplyBroken("The reply was closed before it was complete")
        response = self._response
        if not response.pieces and not response.is_complete:
            await connection.wait_for_body(self._clock())
        return connection.take_body()

    def expect_within(self, idle_s: float) -> None:
        """Set the longest allowed pause (see `Reply.expect_within`). It is limited by the worker's settings and checked
        by pool sweeps.
        """
        if self._connection is not None:
            self._connection.expect_within(min(idle_s, self._idle_s))

    def interrupt(self, error: UpstreamError) -> None:
        """Make reads of the response fail (see `Reply.interrupt`). A completely read response stays complete."""
        if self._connection is not None and not self.ended:
            self._connection.interrupt(error)

    async def aclose(self) -> None:
        connection = self._connection
        if connection is not None:
            self._is_ended = self.ended
            self._connection = None
            self._give_back(connection)
