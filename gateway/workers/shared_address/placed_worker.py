"""Workers that share an address, and so its connections: each sends its requests with the headers of its place."""

from collections.abc import Mapping
from weakref import WeakSet

from cache_index import WorkerId
from gateway.backends.backend import Call, Reply, WorkerBackend
from gateway.backends.worker import HttpWorker
from gateway.workers.worker_place import PINNING, WorkerPlace


class SharedAddress:
    """The connections to one address, for all who have their place there; closed when they are gone."""

    def __init__(self, http: HttpWorker) -> None:
        """*http* has the id that stands for all of them."""
        self.http = http
        self.occupants: WeakSet[PlacedWorker] = WeakSet()
        """Workers that are in use. Weak references: some are made for settings that are refused afterwards."""


class PlacedWorker:
    """One of them; implements `gateway.backends.backend.WorkerBackend`."""

    def __init__(self, id: str, place: WorkerPlace, address: SharedAddress) -> None:  # noqa: A002  # the name that Backend gives it
        self.id = id
        self.url = address.http.url
        self.place = place
        self.address = address
        self._headers = place.headers
        address.occupants.add(self)

    @property
    def connections_open(self) -> int:
        """Connections of the address: which of its workers an idle one is for is not known."""
        return self.address.http.connections_open

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> Reply:
        """See `Backend.send`. What a caller says of places does not pass."""
        headers = [header for header in call.headers if header[0] not in PINNING]
        pinned = call.changed(headers=headers + self._headers)
        return await self.address.http.send(pinned, first_byte_s=first_byte_s)

    def abandon_unanswered(self) -> None:
        """See `WorkerBackend.abandon_unanswered`: those of the address, unless others go on there."""
        if self in self.address.occupants or not self.address.occupants:
            self.address.http.abandon_unanswered()

    def retire(self) -> None:
        """See `WorkerBackend.retire`: once the last of them goes."""
        self.address.occupants.discard(self)
        if not self.address.occupants:
            self.address.http.retire()

    async def aclose(self) -> None:
        """Close all connections of the address: it is called where no worker there is in use."""
        await self.address.http.aclose()


def meant_by(name: str, workers: Mapping[WorkerId, WorkerBackend]) -> list[WorkerId]:
    """Return the worker that is called *name*, or all workers at an address that is called so."""
    worker = WorkerId(name)
    if worker in workers:
        return [worker]
    return [each for each, b in workers.items() if isinstance(b, PlacedWorker) and b.address.http.id == name]
