"""Small requests to any worker, on separate connections, so that request connections stay free."""

from typing import Self

from gateway.backends.backend import Call
from gateway.backends.upstream.reply import HttpReply
from gateway.backends.worker import HttpWorker

_SWEEP_S = 1.0
"""Deadlines are the asker's own; this is how late an idle connection may be closed."""


class WorkerClient:
    """Client that sends calls to workers by address, and keeps connections to those that it calls often.

    These calls take the path of requests: through httpx a call held the event loop for 1 to 3 ms,
    and 64 workers are asked some 45 a second.
    """

    def __init__(self) -> None:
        self._workers: dict[str, HttpWorker] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def send(self, url: str, call: Call) -> HttpReply:
        """Send a call to the worker at *url*, see `Backend.send`.

        Raises:
            UpstreamError: no status and headers came.
            ValueError: *url* cannot be a worker's.
        """
        worker = self._workers.get(url)
        if worker is None:
            self._forget_unused()
            worker = self._workers[url] = HttpWorker(url, url, sweep_s=_SWEEP_S)
        return await worker.send(call)

    async def aclose(self) -> None:
        """Cut all connections."""
        for worker in self._workers.values():
            await worker.aclose()

    def _forget_unused(self) -> None:
        """Workers come and go, and an address that is gone is never asked again. O(addresses), for a new one only."""
        self._workers = {url: worker for url, worker in self._workers.items() if not worker.is_unused}
