"""The addresses that workers of one model share, while its workers are made."""

from collections.abc import Callable, Iterable

from gateway.backends.backend import WorkerBackend
from gateway.backends.worker import HttpWorker
from gateway.dynamo.pinned_worker import PinnedWorker
from gateway.ranks.place import Place
from gateway.ranks.placed_worker import PlacedWorker, SharedAddress


class Addresses:
    """Those of *kept*, which go on, and others as they are needed."""

    def __init__(self, kept: Iterable[WorkerBackend]) -> None:
        self._by_url = {worker.url: worker.address for worker in kept if isinstance(worker, PlacedWorker)}

    def worker(self, id: str, place: Place, url: str, connect: Callable[[], HttpWorker]) -> PlacedWorker:  # noqa: A002  # as backends have it
        """One with *place* at *url*; *connect* makes the connections where nobody has any there."""
        address = self._by_url.get(url)
        if address is None:
            address = self._by_url[url] = SharedAddress(connect())
        kind = PlacedWorker if place.instance is None else PinnedWorker
        return kind(id, place, address)
