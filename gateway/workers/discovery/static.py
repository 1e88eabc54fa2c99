"""Discovery that returns a fixed set of workers."""

from collections.abc import AsyncGenerator

from gateway.workers.worker_spec import WorkerSpec


class StaticDiscovery:
    """Discovery that yields a fixed set of workers once. Implements `gateway.workers.discovery.discovery.Discovery`."""

    def __init__(self, workers: tuple[WorkerSpec, ...] = ()) -> None:
        self._workers = workers

    async def watch(self) -> AsyncGenerator[tuple[WorkerSpec, ...], None]:
        yield self._workers
