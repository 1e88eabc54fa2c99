"""Access to responses that workers store: read, cancel or delete a response by ID on the right worker."""

from collections.abc import Iterator

from cache_index import WorkerId
from gateway.backends.backend import Call, Reply, WorkerBackend
from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.models.response_affinity.owners import ResponseOwner, ResponseOwners, check_response_id
from gateway.protocol.answer_name import AnswerName, answer_name
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import NoWorker, UnknownResponse, UpstreamError
from gateway.proxy.attempt import is_workers_fault, refusal
from gateway.proxy.exchange import Exchange
from gateway.proxy.guardrails.guard import Guard
from gateway.proxy.guardrails.guards import GuardedModels
from gateway.tenancy.teams.caller import Caller

_NOT_FOUND = 404
_RETRY_AFTER_S = 2.0


class KeptResponses:
    """Forwarding of each request about a stored response to the worker that stores the response.

    The owner is known for responses that passed through this gateway, and read from the store for others. With teams, a
    response without a known owner counts as not found. Without teams, every worker is tried in turn.
    """

    def __init__(self, models: Models, owners: ResponseOwners, guarded: GuardedModels | None = None) -> None:
        self._models = models
        self._owners = owners
        self._guarded = guarded

    async def owner(self, response_id: str, caller: Caller | None) -> ResponseOwner | None:
        """Return the owner of a stored response, or None if the owner is unknown and there are no teams.

        Raises:
            UnknownResponse: if the response belongs to a different team, or its owner is unknown.
            InvalidField: if the response ID is malformed.
            Forbidden: if the caller's key may not use the model.
            StoreUnavailable: if the owner cannot be read.
        """
        check_response_id(response_id, "response_id")
        owner = await self._owners.look(response_id)
        if (None if owner is None else owner.team) != (None if caller is None else caller.team_name):
            raise _unknown(response_id)
        if caller is not None and owner is not None:
            caller.permits.check_model(owner.asked or owner.model, owner.model)
        return owner

    def model_of(self, owner: ResponseOwner) -> Model | None:
        """Return the model that created the stored response, or None if the model was removed."""
        return {model.name: model for model in self._models}.get(owner.model)

    def guards(self, response_id: str, caller: Caller | None, exchange: Exchange) -> list[Guard]:
        """Return the guardrails to apply to a stored response, because workers store responses without guardrails.

        Raises:
            GuardrailUnavailable: if a guardrail of the caller's team is not configured.
        """
        if self._guarded is None or not self._guarded.looks_at(caller):
            return []
        owner = self._owners.find(response_id)
        names = [model.name for model in self._models] if owner is None else [owner.model]
        endpoint = ENDPOINTS["/v1/responses"]
        found = [self._guarded.guard(name, caller, exchange, endpoint) for name in names]
        return [guard for guard in found if guard is not None]

    async def ask(self, response_id: str, call: Call, owner: ResponseOwner | None) -> tuple[Reply, AnswerName | None]:
        """Return the reply of the worker that stores the response, and a function that renames the model in it.

        The caller closes the reply.

        The reply names the model as in the request that created the response if that is known, or else by its
        configured name.

        Raises:
            UnknownResponse: if no worker stores the response.
            NoWorker: if no worker that replied stores the response, and a worker did not reply.
            UpstreamError: if the worker that stores the response failed.
        """
        if owner is None:
            return await self._search(response_id, call)
        keeper = self._worker_of(owner)
        if keeper is None:
            raise _unknown(response_id)
        return await _asked(keeper, call), _name_in(self.model_of(owner), owner.asked)

    async def _search(self, response_id: str, call: Call) -> tuple[Reply, AnswerName | None]:
        is_everybody_heard = True
        for worker in self._everybody():
            try:
                reply = await _asked(worker, call) if worker is not None else None
            except UpstreamError:
                reply = None
            if reply is None or worker is None:
                is_everybody_heard = False
            elif reply.status != _NOT_FOUND:
                return reply, _name_in(self._only_model_of(worker))
            else:
                await reply.aclose()
        if is_everybody_heard:
            raise _unknown(response_id)
        raise NoWorker("A worker that might store the response does not reply", retry_after_s=_RETRY_AFTER_S)

    def _everybody(self) -> Iterator[WorkerBackend | None]:
        """Yield all workers, including sleeping workers, which keep their stored responses.

        Yield None for a worker that is down.
        """
        for model in list(self._models):
            for worker in list(model.fleet):
                yield model.workers.get(worker.id) if worker.is_up else None

    def _only_model_of(self, worker: WorkerBackend) -> Model | None:
        """Return the worker's only model, or None if it serves several models, each of which could own the response."""
        served = [model for model in self._models if WorkerId(worker.id) in model.workers]
        return served[0] if len(served) == 1 else None

    def _worker_of(self, owner: ResponseOwner) -> WorkerBackend | None:
        """Return the worker that stores the response, or None if the model or the worker no longer exists."""
        workers = {model.name: model.workers for model in self._models}.get(owner.model, {})
        return workers.get(owner.worker)


async def _asked(worker: WorkerBackend, call: Call) -> Reply:
    """Send a request to *worker* and return the reply.

    Raises:
        UpstreamError: if the worker failed.
    """
    reply = await worker.send(call)
    if not is_workers_fault(reply.status):
        return reply
    try:
        raise await refusal(worker.id, reply)
    finally:
        await reply.aclose()


def _name_in(model: Model | None, asked: str = "") -> AnswerName | None:
    """Return the function that renames the model in replies about a stored response, or None.

    *asked* is the requested name, if known.
    """
    if model is None or not model.answers_as_asked:
        return None
    return answer_name(asked or model.name, model.upstream_name, fell_back=False)


def _unknown(response_id: str) -> UnknownResponse:
    return UnknownResponse(f"The response {response_id[:100]!r} is not stored by any worker", param="response_id")
