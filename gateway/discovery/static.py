"""Workers that are known from the beginning."""

from collections.abc import AsyncGenerator

from gateway.settings import WorkerSettings


class StaticDiscovery:
    """Always finds the same; implements `gateway.discovery.discovery.Discovery`."""

    def __init__(self, workers: tuple[WorkerSettings, ...] = ()) -> None:
        self._workers = workers

    async def watch(self) -> AsyncGenerator[tuple[WorkerSettings, ...], None]:
        """See `Discovery.watch`."""
        yield self._workers
