"""Placement of one model's LoRA adapter on workers, for the attempts of a request."""

from cache_index import WorkerId
from gateway.backends.backend import WorkerBackend
from gateway.models.adapters.registry import AdapterRegistry, ServedAdapter
from gateway.models.adapters.wire import says_unknown


class AdapterPlacement:
    """LoRA adapter of the model *subject* on the workers in *adapter_registry*. Workers know the model as
    *upstream_name*.
    """

    def __init__(self, adapter_registry: AdapterRegistry, subject: ServedAdapter, upstream_name: str) -> None:
        self._adapter_registry = adapter_registry
        self._subject = subject
        self._names = (subject.adapter.name, upstream_name)

    def is_there(self, backend: WorkerBackend) -> bool:
        """Return whether *backend* can get a request without loading the LoRA adapter first. If so, mark the adapter as
        used.

        A worker with an unknown state gets the request: if the adapter is missing, the engine refuses it.
        """
        adapter = self._subject.adapter
        holds = self._adapter_registry.holds(backend.url, adapter)
        if holds is False and adapter.is_loadable:
            return False
        self._adapter_registry.used(backend.url, adapter)
        return True

    async def bring(self, backend: WorkerBackend, *, waits: bool = False) -> None:
        """Ask *backend* to load the LoRA adapter. With *waits*, wait until it fits, because no other worker can answer.

        Raises:
            AdapterMissing: if *backend* may not load the adapter, or failed to load it.
        """
        await self._adapter_registry.bring(self._subject, backend, waits=waits)
        self._adapter_registry.used(backend.url, self._subject.adapter)

    def is_refused(self, backend: WorkerBackend, status: int, body: bytes) -> bool:
        """Return whether the answer shows that *backend* lacks the LoRA adapter. If it does, record this."""
        if not says_unknown(status, body, *self._names):
            return False
        self._adapter_registry.refused(backend.url, self._subject.adapter)
        return True

    def price_s(self, worker: WorkerId) -> float:
        """Return the extra cost of a request to *worker* in seconds, compared with a worker that has the adapter."""
        return self._subject.fleet.members.adapter_penalty_s(worker)
