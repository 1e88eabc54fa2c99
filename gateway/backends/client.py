"""Small questions to any worker, on connections of their own: those of the requests stay free for requests."""

from typing import Self

from gateway.backends.backend import Call
from gateway.backends.worker import HttpWorker
from gateway.upstream.reply import HttpReply

_SWEEP_S = 1.0
"""Deadlines are the asker's own; this is how late an idle connection may be closed."""


class WorkerClient:
    """Sends calls to workers by their address, and keeps a connection to whoever is asked often.

    The path that requests take is taken by these as well: through httpx a question held the event loop for 1 to 3 ms,
    and 64 workers are asked some 45 a second.
    """

    def __init__(self) -> None:
        self._workers: dict[str, HttpWorker] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def send(self, url: str, call: Call) -> HttpReply:
        """As `Backend.send`, to the worker at *url*.

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
