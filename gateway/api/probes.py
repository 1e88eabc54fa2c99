"""Routes for orchestrators and metrics scrapers: liveness, readiness, metrics and version."""

from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, Protocol

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from cache_index import WorkerId
from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.proxy.completed_requests import CompletedRequests
from gateway.server.stop import SCOPE_KEY, Stop
from gateway.telemetry.metrics import Metrics
from gateway.workers.discovery.discovery_status import DiscoveryStatus
from gateway.workers.kv_events.feed import Trust

StreamState = Callable[[WorkerId], Trust | None]
"""Function that returns how reliable the KV event stream of a worker is.

`gateway.workers.event_subscriptions.EventSubscriptions.state` implements it.
"""
ToldOfReplicas = Callable[[], dict[str, Any]]
"""Function that returns the state of other gateway replicas for /readyz.

`gateway.workers.replicas.replicas.Replicas.report` implements it.
"""
MergedMetrics = Callable[[], Awaitable[bytes]]
"""Function that returns the metrics of all processes of a gateway that has several."""


class StoreStatus(Protocol):
    """State of the store for teams and keys. `gateway.app.tenancy.Tenancy` implements this interface."""

    @property
    def is_store_awaited(self) -> bool: ...

    def store_status(self) -> dict[str, Any]: ...


router = APIRouter()

_NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {
        "description": "No model can be served, the gateway has not read the store yet, or the gateway is stopping",
        "model": dict[str, Any],
    }
}


@router.head("/livez", include_in_schema=False)
@router.get("/livez", summary="Return the liveness of the gateway process")
async def livez() -> dict[str, str]:
    return {"status": "ok"}


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    summary="Return whether any model can be served, with the reasons for models that cannot be served",
    responses=_NOT_READY,
)
@router.get("/health", summary="Return the gateway's readiness, at the path that engines use", responses=_NOT_READY)
@router.get("/ping", summary="Return the gateway's readiness, at the path that SageMaker uses", responses=_NOT_READY)
async def readyz(request: Request, response: Response) -> dict[str, Any]:
    models: Models = request.app.state.models
    stream_state: StreamState = request.app.state.stream_state
    discovery_status: DiscoveryStatus = request.app.state.discovery_status
    reasons = {model.name: model.why_not_ready() for model in models}
    store: StoreStatus = request.app.state.store
    is_awaited = discovery_status.are_awaited or store.is_store_awaited
    is_ready = any(reason is None for reason in reasons.values()) and not is_awaited
    status = "ready" if is_ready else "not ready"
    if _is_stopping(request):
        status = "stopping"
    response.status_code = 200 if status == "ready" else 503
    answer: dict[str, Any] = {
        "status": status,
        "models": {name: reason or "ready" for name, reason in reasons.items()},
    }
    if discovery := discovery_status.report():
        answer["discovery"] = discovery
    if kept := store.store_status():
        answer["store"] = kept
    replicas: ToldOfReplicas = request.app.state.replicas
    if shared := replicas():
        answer["replicas"] = shared
    streams = {model.name: _streams(model, stream_state) for model in models if model.follows}
    return answer | {"kv_events": streams} if streams else answer


@router.get("/version", summary="Return the version of the gateway")
async def version_of_the_gateway() -> dict[str, str]:
    return {"version": version("warmgate")}


@router.get("/metrics", summary="Return the gateway's Prometheus metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    completed_requests: CompletedRequests = request.app.state.completed_requests
    completed_requests.settle()  # a scrape sees every request that has ended before it
    counted: Metrics = request.app.state.metrics
    merge: MergedMetrics | None = request.app.state.merged_metrics
    exposition = await (counted.exposition_in_slices() if merge is None else merge())
    return Response(exposition, headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})


def _is_stopping(request: Request) -> bool:
    """Return whether the server is shutting down, or False if the server does not report it."""
    stop: Stop | None = getattr(request.state, SCOPE_KEY, None)
    return stop is not None and stop.is_requested


def _streams(model: Model, stream_state: StreamState) -> dict[str, Trust]:
    """Return how reliable the KV events of each worker are, by worker ID."""
    states = {worker: stream_state(worker) for worker in model.workers}
    return {worker: state for worker, state in states.items() if state is not None}
