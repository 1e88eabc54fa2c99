"""Workers of a session, in the order in which the strategy session tries them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cache_index import WorkerId
from gateway.backends.backend import WorkerBackend
from gateway.models.model import Model
from gateway.picker.destinations import Destinations
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


def ready_workers(model: Model, destinations: Destinations, subset: frozenset[str] | None) -> Iterator[ReadyWorker]:
    """Yield the ready workers of *model* whose endpoints are known and in *subset*."""
    for worker in model.fleet:
        backend = model.workers.get(WorkerId(worker.id))
        if backend is None or not worker.is_ready:
            continue
        endpoint = destinations.known(backend)
        if endpoint is not None and (subset is None or endpoint in subset):
            yield ReadyWorker(endpoint, backend, worker)


def by_weight(session: str, workers: Iterable[ReadyWorker]) -> list[ReadyWorker]:
    """Return *workers* in the order in which the strategy session tries them for *session*."""
    return sorted(workers, key=lambda each: weight(session, WorkerId(each.backend.id)), reverse=True)


def endpoints_of(workers: Iterable[ReadyWorker], max_fallbacks: int) -> list[str]:
    """Return the different endpoints of *workers*, at most one and *max_fallbacks*."""
    return list(dict.fromkeys(each.endpoint for each in workers))[: 1 + max_fallbacks]
