"""Find or open the connections that workers at the same address share."""

from collections.abc import Callable, Iterable

from gateway.backends.backend import WorkerBackend
from gateway.backends.worker import HttpWorker
from gateway.workers.dynamo.pinned_worker import PinnedWorker
from gateway.workers.shared_address.placed_worker import PlacedWorker, SharedAddress
from gateway.workers.worker_place import WorkerPlace


class SharedAddresses:
    """Connections by address, which are initially those of the workers *kept*."""

    def __init__(self, kept: Iterable[WorkerBackend]) -> None:
        self._by_url = {worker.url: worker.address for worker in kept if isinstance(worker, PlacedWorker)}

    def worker(self, id: str, place: WorkerPlace, url: str, connect: Callable[[], HttpWorker]) -> PlacedWorker:  # noqa: A002  # as backends have it
        """Return a worker at *place* behind *url*. If no worker is connected to this URL yet, *connect* is called."""
        address = self._by_url.get(url)
        if address is None:
            address = self._by_url[url] = SharedAddress(connect())
        kind = PlacedWorker if place.instance is None else PinnedWorker
        return kind(id, place, address)
