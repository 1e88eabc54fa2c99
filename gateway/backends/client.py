"""HTTP client for small requests to any worker. Its connections are separate from those for client requests."""

from typing import Self

from gateway.backends.backend import Call
from gateway.backends.upstream.reply import HttpReply
from gateway.backends.worker import HttpWorker

_SWEEP_S = 1.0
"""Seconds between two checks for idle connections. In contrast, callers set the time limits of their requests."""


class WorkerClient:
    """Client for small requests to workers by URL. It keeps connections to workers that are called often.

    It uses the gateway's own HTTP client. With httpx each request blocked the event loop for 1 to 3 ms, and a cluster
    of 64 workers needs about 45 requests per second.
    """

    def __init__(self) -> None:
        self._workers: dict[str, HttpWorker] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def send(self, url: str, call: Call) -> HttpReply:
        """Send a request to the worker at *url* (see `Backend.send`).

        Raises:
            UpstreamError: if no status and headers arrive.
            ValueError: if *url* is not a valid worker URL.
        """
        worker = self._workers.get(url)
        if worker is None:
            self._forget_unused()
            worker = self._workers[url] = HttpWorker(url, url, sweep_s=_SWEEP_S)
        return await worker.send(call)

    async def aclose(self) -> None:
        """Close all connections."""
        for worker in self._workers.values():
            await worker.aclose()

    def _forget_unused(self) -> None:
        """Remove workers without open connections, because old addresses are never used again. O(addresses), only for a
        new address.
        """
        self._workers = {url: worker for url, worker in self._workers.items() if not worker.is_unused}
