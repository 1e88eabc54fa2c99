"""Wakes requests that wait for a worker when one may be available."""

import asyncio

HEARTBEAT_S = 0.25
"""Time between two looks without an announcement: a breaker closes by time alone."""


class WorkerArrivals:
    """Requests of one model that wait for a worker, whatever settings they began with."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self._deserted_since: float | None = None

    @property
    def waiting(self) -> int:
        """Requests that wait for a worker."""
        return len(self._waiting)

    def announce(self) -> None:
        """Wake all requests: a worker came up, woke, stopped draining, or is new."""
        self._deserted_since = None
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def deserted_since(self, now: float) -> float:
        """Return since when there is no worker: *now* at the first call after an announcement. Seconds of any clock."""
        if self._deserted_since is None:
            self._deserted_since = now
        return self._deserted_since

    async def next(self) -> None:
        """Wait for an announcement or a heartbeat: then the caller looks again."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=HEARTBEAT_S)
        finally:
            self._waiting.discard(waiter)
