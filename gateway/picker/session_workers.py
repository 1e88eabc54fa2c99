"""Workers of a session, in the order in which the strategy session tries them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cache_index import WorkerId
from gateway.backends.backend import WorkerBackend
from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.picker.destinations import Destinations
from gateway.picker.subset import Subset
from gateway.protocol.errors import GatewayError
from gateway.protocol.headers import HeaderLookup
from gateway.protocol.request_hints import REWRITE_HEADERS, requested_strategy
from gateway.protocol.session_identity import BY_SESSION, scoped_session, session_name
from routing.strategies.session import weight
from routing.worker import Worker

MODEL_HEADER = b"x-gateway-model-name"
"""Header with the model in the body, which the body-based routing of the Gateway API Inference Extension adds."""


@dataclass(frozen=True, slots=True)
class ReadyWorker:
    """Worker that is ready, at an endpoint that Envoy accepts."""

    endpoint: str
    backend: WorkerBackend
    state: Worker


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """Choice of the worker by the headers of a request."""

    model: Model
    session: str
    """Session as in `routing.request.Request`."""
    backend: WorkerBackend
    endpoints: list[str]
    """Endpoints to try, in order. The first one is that of the worker."""


class SessionWorkers:
    """Choice of the worker for requests whose session header alone decides."""

    def __init__(
        self, models: Models, destinations: Destinations, *, max_fallbacks: int, clock: Callable[[], float]
    ) -> None:
        """Create the choice. Envoy gets at most *max_fallbacks* further endpoints."""
        self._models = models
        self._destinations = destinations
        self._max_fallbacks = max_fallbacks
        self._clock = clock

    async def choose(self, header: HeaderLookup, team: str, subset: Subset | None) -> SessionChoice | None:
        """Return the choice for a request of *team* whose headers *header* returns, or None if the body decides, or if
        no worker in *subset* is ready.
        """
        try:
            model = self._model(header)
            strategy = requested_strategy(header)
            said = None if model is None else session_name(header, model.session_header, None)
        except GatewayError:
            return None  # the same error is raised after the body
        if model is None or strategy is not None or model.strategy != BY_SESSION or model.name != model.upstream_name:
            return None
        if model.adapter is not None or model.prefill_decode is not None or model.pulls is not None:
            return None
        session = scoped_session(said, team)
        if not session:
            return None
        await self._destinations.resolve(each.url for each in model.workers.values())
        ready = list(ready_workers(model, self._destinations, subset))
        now = self._clock()
        found = by_weight(session, [each for each in ready if each.state.breaker.allows(now)] or ready)
        if not found:
            return None
        return SessionChoice(model, session, found[0].backend, endpoints_of(found, self._max_fallbacks))

    def _model(self, header: HeaderLookup) -> Model | None:
        """Return the model that the headers name, or the only model. Return None if routes or several models remain.

        Raises:
            UnknownModel: if the named model does not exist.
        """
        if any(map(header, REWRITE_HEADERS)):
            return None  # the body has to change
        named = header(MODEL_HEADER) or self._models.only()
        if named is None or self._models.route(named) is not None or self._models.has_rewrites:
            return None
        return self._models.find(named).latest


def ready_workers(model: Model, destinations: Destinations, subset: Subset | None) -> Iterator[ReadyWorker]:
    """Yield the ready workers of *model* whose endpoints are known and in *subset*."""
    for worker in model.fleet:
        backend = model.workers.get(WorkerId(worker.id))
        if backend is None or not worker.is_ready:
            continue
        endpoint = destinations.known(backend)
        if endpoint is not None and (subset is None or subset.accepts(endpoint)):
            yield ReadyWorker(endpoint, backend, worker)


def by_weight(session: str, workers: Iterable[ReadyWorker]) -> list[ReadyWorker]:
    """Return *workers* in the order in which the strategy session tries them for *session*."""
    return sorted(workers, key=lambda each: weight(session, WorkerId(each.backend.id)), reverse=True)


def endpoints_of(workers: Iterable[ReadyWorker], max_fallbacks: int) -> list[str]:
    """Return the different endpoints of *workers*, at most one and *max_fallbacks*."""
    return list(dict.fromkeys(each.endpoint for each in workers))[: 1 + max_fallbacks]
