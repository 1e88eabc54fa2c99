"""Workers that share an address and its connections. Each worker adds headers to its requests that select it."""

from collections.abc import Mapping
from weakref import WeakSet

from cache_index import WorkerId
from gateway.backends.backend import Call, Reply, WorkerBackend
from gateway.backends.worker import HttpWorker
from gateway.workers.worker_place import PINNING, WorkerPlace


class SharedAddress:
    """Connections to one address. All workers at this address share them. They are closed with the last worker."""

    def __init__(self, http: HttpWorker) -> None:
        """Create the shared address. *http* is its HTTP backend, whose id stands for all workers at the address."""
        self.http = http
        self.occupants: WeakSet[PlacedWorker] = WeakSet()
        """Workers at the address that are in use. The references are weak, because settings can be rejected after their
        workers were built.
        """


class PlacedWorker:
    """One of several workers at an address. Implements `gateway.backends.backend.WorkerBackend`."""

    def __init__(self, id: str, place: WorkerPlace, address: SharedAddress) -> None:  # noqa: A002  # the name that Backend gives it
        self.id = id
        self.url = address.http.url
        self.place = place
        self.address = address
        self._headers = place.headers
        address.occupants.add(self)

    @property
    def connections_open(self) -> int:
        """Number of open connections to the shared address. No idle connection belongs to a particular worker."""
        return self.address.http.connections_open

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> Reply:
        """Send a request (see `Backend.send`). Headers from the caller that select a worker are removed."""
        return await self.address.http.send(self._pinned(call), first_byte_s=first_byte_s)

    def addressed(self, call: Call) -> Call:
        """Return *call* with the headers that select the worker, and as the shared address receives it."""
        return self.address.http.addressed(self._pinned(call))

    def _pinned(self, call: Call) -> Call:
        headers = [header for header in call.headers if header[0] not in PINNING]
        return call.changed(headers=headers + self._headers)

    def abandon_unanswered(self) -> None:
        """Abandon the unanswered requests at the shared address, unless other workers still use it."""
        if self in self.address.occupants or not self.address.occupants:
            self.address.http.abandon_unanswered()

    def retire(self) -> None:
        """Stop the reuse of the shared connections after the last worker at the address is gone."""
        self.address.occupants.discard(self)
        if not self.address.occupants:
            self.address.http.retire()

    async def aclose(self) -> None:
        """Close all connections to the shared address. No worker at this address is allowed to be in use."""
        await self.address.http.aclose()


def meant_by(name: str, workers: Mapping[WorkerId, WorkerBackend]) -> list[WorkerId]:
    """Return the worker with the id *name*, or all workers at the address with the id *name*."""
    worker = WorkerId(name)
    if worker in workers:
        return [worker]
    return [each for each, b in workers.items() if isinstance(b, PlacedWorker) and b.address.http.id == name]
