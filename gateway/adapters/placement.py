"""The adapter of one model, as the attempts of a request see it."""

from cache_index import WorkerId
from gateway.adapters.shelf import Shelf, Subject
from gateway.adapters.wire import says_unknown
from gateway.backends.backend import WorkerBackend


class Placement:
    """What stands on *shelf* of *subject*. *upstream_name* is what requests call it."""

    def __init__(self, shelf: Shelf, subject: Subject, upstream_name: str) -> None:
        self._shelf = shelf
        self._subject = subject
        self._names = (subject.adapter.name, upstream_name)

    def is_there(self, backend: WorkerBackend) -> bool:
        """Whether a request can be sent there at once. It is, then: the adapter counts as used.

        Where nobody knows, or nobody could change it, the engine will say.
        """
        adapter = self._subject.adapter
        holds = self._shelf.holds(backend.url, adapter)
        if holds is False and adapter.is_loadable:
            return False
        self._shelf.used(backend.url, adapter)
        return True

    async def bring(self, backend: WorkerBackend, *, waits: bool = False) -> None:
        """Let *backend* load it; one that *waits* has nowhere else to go, and waits for room.

        Raises:
            AdapterMissing: it could not, or may not.
        """
        await self._shelf.bring(self._subject, backend, waits=waits)
        self._shelf.used(backend.url, self._subject.adapter)

    def is_refused(self, backend: WorkerBackend, status: int, body: bytes) -> bool:
        """Whether the answer says that *backend* does not have it, which is known from then on."""
        if not says_unknown(status, body, *self._names):
            return False
        self._shelf.refused(backend.url, self._subject.adapter)
        return True

    def price_s(self, worker: WorkerId) -> float:
        """What a request to *worker* costs more than one to a worker that has it."""
        return self._subject.fleet.adapter_s(worker)
