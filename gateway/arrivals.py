"""Wakes requests that wait for a worker when one may have come."""

import asyncio

HEARTBEAT_S = 0.25
"""Between two looks where nobody said that anything has changed: a breaker closes by time alone."""


class Arrivals:
    """Of one model, under whichever settings its requests began."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self._deserted_since: float | None = None

    @property
    def waiting(self) -> int:
        """Requests that wait for a worker."""
        return len(self._waiting)

    def announce(self) -> None:
        """A worker came up, woke, is no longer drained, or is new."""
        self._deserted_since = None
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def deserted_since(self, now: float) -> float:
        """Since when nobody is there: *now*, if nobody has asked since the last announcement. Seconds of any clock."""
        if self._deserted_since is None:
            self._deserted_since = now
        return self._deserted_since

    async def next(self) -> None:
        """Until somebody announces, or a heartbeat has passed: then it is worth another look."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=HEARTBEAT_S)
        finally:
            self._waiting.discard(waiter)
