"""Send a request to a worker that might have to load the model's LoRA adapter first."""

from collections.abc import Callable, Coroutine
from typing import Any

from gateway.backends.backend import Call, WorkerBackend
from gateway.models.adapters.placement import AdapterPlacement
from gateway.models.model import Model
from gateway.protocol.errors import AdapterMissing
from gateway.proxy.attempt import Attempt
from gateway.proxy.current_attempt import CurrentAttempt
from gateway.proxy.exchange import Exchange
from routing.booking import Ending
from routing.candidate import Candidate
from routing.request import Request

Ask = Callable[[Candidate, Call, bool], Coroutine[Any, Any, Attempt]]
"""Function that sends a request to a worker. Its last argument is true if no other worker is left to try."""


class AdapterAttempt:
    """Loading of a missing LoRA adapter on a worker, before a request is sent or after the engine reports an unknown
    adapter.
    """

    def __init__(self, adapter: AdapterPlacement, model: Model, exchange: Exchange, current: CurrentAttempt) -> None:
        self._adapter = adapter
        self._model = model
        self._exchange = exchange
        self._current = current

    async def answer(self, request: Request, candidate: Candidate, call: Call, is_last: bool, ask: Ask) -> Attempt:
        """Send *request* as *call* to the worker *candidate* with the function *ask*, and return the answer.

        Raises:
            UpstreamError: if the worker fails, as in `gateway.proxy.attempt.ask`.
            AdapterMissing: if the worker does not have the adapter and cannot load it.
        """
        adapter, backend = self._adapter, self._model.latest.workers[candidate.worker]
        if not adapter.is_there(backend):
            await self._load(request, backend, candidate, waits=is_last)
        attempt = await ask(candidate, call, is_last)
        if attempt.observer is not None or not adapter.is_refused(backend, attempt.status, attempt.first):
            return attempt
        await self._load(request, backend, candidate, waits=is_last)
        attempt = await ask(candidate, call, is_last)
        if attempt.observer is None and adapter.is_refused(backend, attempt.status, attempt.first):
            raise AdapterMissing(f"worker {candidate.worker} still reports an unknown adapter after loading it")
        return attempt

    async def _load(self, request: Request, backend: WorkerBackend, candidate: Candidate, *, waits: bool) -> None:
        """Load the LoRA adapter, and then reserve the worker's slot again, so that the load time does not count as
        prefill time.
        """
        self._exchange.enter("adapter")
        await self._adapter.bring(backend, waits=waits)
        await self._current.give_back(Ending.ABORTED)
        if not self._current.reserve(request, candidate):
            raise AdapterMissing(f"worker {candidate.worker} accepts no more requests")
