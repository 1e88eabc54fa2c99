"""The composition root: the one place where the classes meet. Settings go in, an ASGI application comes out."""

import asyncio
import logging
import random
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

import httpx
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from cache_index import Hasher, RadixTree, WorkerId
from gateway.api import models as models_api
from gateway.api import probes
from gateway.backends.bedrock.aws import CredentialChain, SigV4Signer
from gateway.backends.bedrock.backend import BedrockBackend
from gateway.backends.bedrock.endpoint import Timeouts as BedrockTimeouts
from gateway.backends.worker import HttpWorker
from gateway.body import parse_chat, parse_completion
from gateway.disconnects import Disconnects
from gateway.endings import Endings, Observer
from gateway.errors import ClientError, GatewayError, MethodNotAllowed, UnknownRoute
from gateway.headers import fields, request_id_of
from gateway.health import Health, Patient
from gateway.metrics import Metrics, StateCollector
from gateway.model_names import ModelNames
from gateway.models import Model, Models
from gateway.proxy import Proxy
from gateway.request_log import RequestLog, Sink
from gateway.settings import ModelBedrockSettings, ModelSettings, Settings, WorkerSettings
from gateway.turnstile import Turnstile
from gateway.upstream.timeouts import Timeouts
from routing.breaker import Breaker
from routing.dispatcher import Immediate
from routing.fleet import Fleet
from routing.strategies import STRATEGIES

_log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BYTES_PER_TOKEN = 4.0
"""Until a model's own ratio is learnt; only the room of a worker that does not tell its size depends on it."""

COMPLETIONS = {"/v1/chat/completions": parse_chat, "/v1/completions": parse_completion}


class Gateway:
    """The outermost ASGI callable: completions go to the proxy before FastAPI's router sees them."""

    def __init__(self, api: FastAPI, proxy: Proxy) -> None:
        self._api = api
        self._proxy = proxy

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._api(scope, receive, send)
        elif self._proxy.serves(scope["path"]):
            await self._proxy(scope, receive, send)
        else:
            await self._api(scope, receive, _naming_request(scope, send))


def create_app(settings: Settings, *, log_sink: Sink | None = None) -> Gateway:
    """Build the gateway. No I/O happens before its lifespan begins. Request lines go to *log_sink*, default stdout."""
    clock = time.monotonic
    rng = random.Random(settings.routing.seed)  # None: seeded by the operating system
    index = _index(settings)
    client = httpx.AsyncClient(follow_redirects=False, limits=httpx.Limits(max_connections=None))
    models = _models(settings, index, client=client, clock=clock, rng=rng)
    metrics = Metrics()
    metrics.registry.register(StateCollector(models, index, max_index_bytes=settings.index.max_bytes, clock=clock))
    observers: list[Observer] = [metrics]
    if settings.logging.requests:
        observers.append(RequestLog(log_sink or sys.stdout.buffer, wall_clock=time.time))  # noqa: TID251
    endings = Endings(observers)
    disconnects = Disconnects()
    proxy = Proxy(
        COMPLETIONS,
        models,
        endings=endings,
        disconnects=disconnects,
        clock=clock,
        rng=random.Random(),
        max_body_bytes=settings.server.max_body_bytes,
        max_attempts=settings.retry.max_attempts,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with client, asyncio.TaskGroup() as tasks:
            health = _health(settings, models, client=client, clock=clock)
            await health.check()
            loops = [tasks.create_task(health.run()), tasks.create_task(disconnects.run())]
            yield
            for loop in loops:
                loop.cancel()
            for model in models:
                await model.aclose()
        endings.settle()

    return Gateway(_api(models, metrics, endings, lifespan), proxy)


def _index(settings: Settings) -> RadixTree:
    room_bytes = settings.index.default_worker_blocks * settings.index.default_block_size * BYTES_PER_TOKEN
    return RadixTree(max_bytes=settings.index.max_bytes, default_capacity=int(room_bytes / settings.index.block_bytes))


def _models(
    settings: Settings,
    index: RadixTree,
    *,
    client: httpx.AsyncClient,
    clock: Callable[[], float],
    rng: random.Random,
) -> Models:
    hasher = Hasher(secrets.token_bytes(32), block_bytes=settings.index.block_bytes)
    models = {
        model.name: _model(model, settings, index=index, hasher=hasher, client=client, clock=clock, rng=rng)
        for model in settings.models
    }
    return Models(models, ModelNames((model.name, model.aliases) for model in settings.models))


def _model(
    model: ModelSettings,
    settings: Settings,
    *,
    index: RadixTree,
    hasher: Hasher,
    client: httpx.AsyncClient,
    clock: Callable[[], float],
    rng: random.Random,
) -> Model:
    limits = settings.breaker
    fleet = Fleet(
        index,
        block_bytes=settings.index.block_bytes,
        prefill_tokens_per_s=settings.routing.initial_prefill_tokens_per_s,
        lease_s=settings.routing.lease_s,
        breaker=lambda: Breaker(failures=limits.failures, window_s=limits.window_s, open_s=limits.open_s),
    )
    workers = {WorkerId(worker.id): _worker(worker, settings) for worker in model.workers}
    fleet.set_workers(workers, clock())
    for worker in workers:
        fleet.set_up(worker, up=False)
    return Model(
        model.name,
        upstream_name=model.upstream_model,
        strategy=model.strategy,
        session_header=model.session_header.encode("ascii"),
        hasher=hasher,
        index=index,
        fleet=fleet,
        turnstile=Turnstile(Immediate(fleet, STRATEGIES[model.strategy](rng)), fleet, clock=clock),
        workers=workers,
        fallback=_bedrock(model.bedrock, settings, client) if model.bedrock else None,
    )


def _worker(worker: WorkerSettings, settings: Settings) -> HttpWorker:
    patience = settings.timeouts
    return HttpWorker(
        worker.id,
        worker.url,
        api_key=worker.api_key.get_secret_value() if worker.api_key else None,
        timeouts=Timeouts(
            connect_s=patience.connect_s,
            first_byte_s=patience.first_byte_s,
            idle_s=patience.idle_s,
            total_s=patience.total_s,
        ),
        max_connections=worker.max_connections,
    )


def _bedrock(model_id: ModelBedrockSettings, settings: Settings, client: httpx.AsyncClient) -> BedrockBackend:
    """One model of Bedrock."""
    shared = settings.bedrock
    region = model_id.region or shared.region
    assert region is not None, "the settings see to it"
    return BedrockBackend(
        model_id=model_id.model_id,
        region=region,
        client=client,
        signer=SigV4Signer(region=region, credentials=CredentialChain(profile=shared.profile)),
        endpoint_url=model_id.endpoint_url or shared.endpoint_url,
        default_max_tokens=model_id.default_max_tokens,
        timeouts=BedrockTimeouts(first_event_s=model_id.first_event_timeout_s),
    )


def _health(settings: Settings, models: Models, *, client: httpx.AsyncClient, clock: Callable[[], float]) -> Health:
    health = settings.health
    return Health(
        [
            Patient(worker_id, worker.url, model.fleet, model.name, partial(model.went_down, worker_id))
            for model in models
            for worker_id, worker in model.workers.items()
        ],
        client=client,
        path=health.path,
        interval_s=health.interval_s,
        timeout_s=health.timeout_s,
        failures_to_down=health.failures_to_down,
        successes_to_up=health.successes_to_up,
        metrics_interval_s=health.metrics_interval_s,
        clock=clock,
    )


def _api(
    models: Models,
    metrics: Metrics,
    endings: Endings,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]],
) -> FastAPI:
    api = FastAPI(title="Warmgate", version=version("warmgate"), lifespan=lifespan)
    api.state.models = models
    api.state.metrics = metrics
    api.state.endings = endings
    api.include_router(models_api.router)
    api.include_router(probes.router)
    api.add_exception_handler(GatewayError, _told)
    api.add_exception_handler(HTTPException, _told)
    api.add_exception_handler(Exception, _told)  # and goes on to the server, which logs it
    return api


async def _told(request: Request, error: Exception) -> Response:
    """Every error in OpenAI's shape, also those of the router, 404 and 405, and what nobody foresaw."""
    headers: Mapping[str, str] | None = None
    if isinstance(error, HTTPException):
        headers = error.headers  # with 405: the methods that are allowed
        known: type[ClientError] = MethodNotAllowed if error.status_code == MethodNotAllowed.status else UnknownRoute
        meant = _meant(request.url.path) if known is UnknownRoute else ""
        error = known(f"{request.method} {request.url.path[:200]} is not served here{meant}")
    elif not isinstance(error, GatewayError):
        error = GatewayError("The gateway failed to serve this request")
    return Response(error.to_body(), error.status, headers, media_type="application/json")


def _meant(path: str) -> str:
    """The end of a sentence that says what was meant where a base URL lacks its /v1, or has it twice."""
    for served in (*COMPLETIONS, "/v1/models"):
        if path.rstrip("/").endswith(served.removeprefix("/v1")):
            return f"; did you mean {served}"
    return ""


def _naming_request(scope: MutableMapping[str, Any], send: Send) -> Send:
    """*send*, with the caller's request id, or one made here, in the response."""
    request_id = request_id_of(fields(scope["headers"])) or secrets.token_hex(16).encode()

    async def naming(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
        await send(message)

    return naming
