"""Requests that wait for a worker and that are woken when one might be available."""

import asyncio

HEARTBEAT_S = 0.25
"""Seconds between two checks without an announcement, because circuit breakers close without any announcement."""


class WorkerArrivals:
    """Requests of one model that wait for a worker, including requests that began with former settings."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self._deserted_since: float | None = None

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a worker."""
        return len(self._waiting)

    def announce(self) -> None:
        """Wake all waiting requests, because a worker is new, came up, woke up or stopped draining."""
        self._deserted_since = None
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def deserted_since(self, now: float) -> float:
        """Return the time since which no worker exists, which is *now* at the first call after an announcement."""
        if self._deserted_since is None:
            self._deserted_since = now
        return self._deserted_since

    async def next(self) -> None:
        """Wait for an announcement or a heartbeat. Afterwards, the caller looks for a worker again."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=HEARTBEAT_S)
        finally:
            self._waiting.discard(waiter)
