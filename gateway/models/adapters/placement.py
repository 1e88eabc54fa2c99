"""The adapter of one model, for the attempts of a request."""

from cache_index import WorkerId
from gateway.backends.backend import WorkerBackend
from gateway.models.adapters.registry import AdapterRegistry, ServedAdapter
from gateway.models.adapters.wire import says_unknown


class AdapterPlacement:
    """Adapter of one model, *subject*, on the workers that *adapter_registry* knows. Requests call it
    *upstream_name*.
    """

    def __init__(self, adapter_registry: AdapterRegistry, subject: ServedAdapter, upstream_name: str) -> None:
        self._adapter_registry = adapter_registry
        self._subject = subject
        self._names = (subject.adapter.name, upstream_name)

    def is_there(self, backend: WorkerBackend) -> bool:
        """Return whether a request can be sent there at once; if so, the adapter counts as used.

        Where it is not known, or could not be changed, the engine will say.
        """
        adapter = self._subject.adapter
        holds = self._adapter_registry.holds(backend.url, adapter)
        if holds is False and adapter.is_loadable:
            return False
        self._adapter_registry.used(backend.url, adapter)
        return True

    async def bring(self, backend: WorkerBackend, *, waits: bool = False) -> None:
        """Make *backend* load it; with *waits*, wait for room: there is no other worker.

        Raises:
            AdapterMissing: it could not, or may not.
        """
        await self._adapter_registry.bring(self._subject, backend, waits=waits)
        self._adapter_registry.used(backend.url, self._subject.adapter)

    def is_refused(self, backend: WorkerBackend, status: int, body: bytes) -> bool:
        """Whether the answer says that *backend* does not have it, which is known from then on."""
        if not says_unknown(status, body, *self._names):
            return False
        self._adapter_registry.refused(backend.url, self._subject.adapter)
        return True

    def price_s(self, worker: WorkerId) -> float:
        """Return the extra cost, in seconds, of a request to *worker* compared with a worker that has the adapter."""
        return self._subject.fleet.members.adapter_penalty_s(worker)
