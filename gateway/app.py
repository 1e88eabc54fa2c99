"""The composition root: the one place where the classes meet. Settings go in, an ASGI application comes out."""

import asyncio
import logging
import random
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from cache_index import Hasher, RadixTree
from cache_index.confirmed import Confirmed
from cache_index.residency import Residency
from cache_index.tokens import TokenHasher
from gateway.api import admin as admin_api
from gateway.api import explain as explain_api
from gateway.api import models as models_api
from gateway.api import probes
from gateway.api import responses as responses_api
from gateway.api.admin_access import AdminAccess
from gateway.api.explain import Explainer
from gateway.api.openapi import describe
from gateway.cache_check import CacheCheck
from gateway.cache_metrics import CacheCollector
from gateway.configuration import Configuration, Reloader
from gateway.disconnects import Disconnects
from gateway.discovery.discovery import Discovery
from gateway.discovery.file import FileDiscovery
from gateway.discovery.static import StaticDiscovery
from gateway.endings import Endings, Observer
from gateway.endpoints.table import ENDPOINTS
from gateway.endpoints.unserved import INSTEAD
from gateway.errors import AdminRefused, ClientError, GatewayError, MethodNotAllowed, UnknownRoute
from gateway.followers import Followers
from gateway.hangup import told_of_hangups
from gateway.headers import fields, request_id_of
from gateway.health import Health
from gateway.keep_alive import KeepAlive
from gateway.kept_responses import KeptResponses
from gateway.kv_events.intake import Intake
from gateway.live_settings import LiveSettings, OnRefused
from gateway.metrics import Metrics, StateCollector
from gateway.models import Models
from gateway.proxy import Proxy
from gateway.reloads import Reloads
from gateway.request_log import RequestLog, Sink
from gateway.response_owners import ResponseOwners
from gateway.roster import Knowledge, Roster, rules_of
from gateway.settings import ModelSettings, Settings
from gateway.start_checks import StartChecks
from gateway.tokenizers import Tokenizers

_log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

TOKEN_THREADS = 1
"""That make tokens of long prompts: native code beside the event loop; more would take the core that it has."""
BYTES_PER_TOKEN = 4.0
"""Until a model's own ratio is learnt; only the room of a worker that does not tell its size depends on it."""


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
            await self._api(*_naming_request(scope, receive, send))


def create_app(
    settings: Settings, *, configuration: Configuration | None = None, log_sink: Sink | None = None
) -> Gateway:
    """Build the gateway. No I/O happens before its lifespan begins.

    *settings* are those that *configuration* has loaded, which is followed; without one they stay as they are. Request
    lines go to *log_sink*, default stdout.
    """
    clock = time.monotonic
    client = httpx.AsyncClient(follow_redirects=False, limits=httpx.Limits(max_connections=None))
    models = Models()
    health = Health(rules_of(settings), client=client, clock=clock, rng=random.Random())
    executor = ThreadPoolExecutor(max_workers=TOKEN_THREADS, thread_name_prefix="tokens")
    knowledge = _knowledge(settings, Tokenizers(executor=executor, client=client, clock=clock), client, clock)
    index, followers = knowledge.index, knowledge.followers
    seed = settings.routing.seed  # None: seeded by the operating system
    roster = Roster(models, health, knowledge=knowledge, client=client, clock=clock, rng=random.Random(seed))
    roster.take(settings)
    reloads = Reloads(wall_clock=time.time)  # noqa: TID251
    live = LiveSettings(settings, take=roster.take, discover=_discovery, reloads=reloads)
    metrics = Metrics()
    metrics.registry.register(reloads)
    metrics.registry.register(StateCollector(models, index, max_index_bytes=settings.index.max_bytes, clock=clock))
    limit = settings.kv_events.max_bytes
    metrics.registry.register(CacheCollector(models, followers, knowledge.confirmed, max_confirmed_bytes=limit))
    check = CacheCheck(client, knowledge.confirmed, clock=clock, nonce=partial(secrets.token_hex, 8))
    start_checks = StartChecks(models, followers, check, knowledge.tokenizers)
    observers: list[Observer] = [metrics]
    if settings.logging.requests:
        observers.append(RequestLog(log_sink or sys.stdout.buffer, wall_clock=time.time))  # noqa: TID251
    endings = Endings(observers)
    disconnects = Disconnects()
    keep_alive = KeepAlive(silence_s=settings.server.sse_keep_alive_s)
    owners = ResponseOwners()
    proxy = Proxy(
        ENDPOINTS,
        models,
        owners=owners,
        endings=endings,
        disconnects=disconnects,
        keep_alive=keep_alive,
        clock=clock,
        rng=random.Random(),
        max_body_bytes=settings.server.max_body_bytes,
        max_attempts=settings.retry.max_attempts,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with client, asyncio.TaskGroup() as tasks:
            await live.find()
            await health.check()
            running = [health.run(), live.run(), followers.run(), disconnects.run(), keep_alive.run()]
            if settings.kv_events.check:
                running.append(start_checks.run())
            loops = [tasks.create_task(loop) for loop in running]
            async with _reloading(live, configuration, tasks):
                yield
            for loop in loops:
                loop.cancel()
            for model in models:
                await model.aclose()
            executor.shutdown(wait=False, cancel_futures=True)
        endings.settle()

    api = _api(
        models,
        metrics,
        endings,
        KeptResponses(models, owners),
        Explainer(
            ENDPOINTS,
            models,
            owners,
            stream_state=followers.state,
            max_body_bytes=settings.server.max_body_bytes,
        ),
        stream_state=followers.state,
        admin_access=_admin_access(settings),
        lifespan=lifespan,
    )
    return Gateway(api, proxy)


def _index(settings: Settings) -> RadixTree:
    room_bytes = settings.index.default_worker_blocks * settings.index.default_block_size * BYTES_PER_TOKEN
    return RadixTree(max_bytes=settings.index.max_bytes, default_capacity=int(room_bytes / settings.index.block_bytes))


def _knowledge(
    settings: Settings, tokenizers: Tokenizers, client: httpx.AsyncClient, clock: Callable[[], float]
) -> Knowledge:
    events = settings.kv_events
    token_hasher = TokenHasher(secrets.token_bytes(32))
    residency = Residency(token_hasher, max_bytes=events.max_bytes)
    confirmed = Confirmed(residency, lifetime_s=events.prediction_s)
    intake = Intake(bind=events.bind, client=client, clock=clock, wall_clock=time.time)  # noqa: TID251
    return Knowledge(
        index=_index(settings),
        hasher=Hasher(secrets.token_bytes(32), block_bytes=settings.index.block_bytes),
        confirmed=confirmed,
        token_hasher=token_hasher,
        tokenizers=tokenizers,
        followers=Followers(confirmed, intake),
    )


def _admin_access(settings: Settings) -> AdminAccess:
    token = settings.server.admin_token
    return AdminAccess(token.get_secret_value() if token is not None else None)


def _discovery(model: ModelSettings, on_refused: OnRefused) -> Discovery:
    """Finds workers beside those that the settings list."""
    if model.workers_file is None:
        return StaticDiscovery()
    return FileDiscovery(Path(model.workers_file), on_refused=on_refused)


@asynccontextmanager
async def _reloading(
    live: LiveSettings, configuration: Configuration | None, tasks: asyncio.TaskGroup
) -> AsyncIterator[None]:
    """Inside, changes of *configuration* are put in force; None: there are none."""
    if configuration is None:
        yield
        return
    reloader = Reloader(configuration, live.reload)
    loop = tasks.create_task(reloader.run())
    with told_of_hangups(reloader.ask):
        yield
    loop.cancel()


def _api(
    models: Models,
    metrics: Metrics,
    endings: Endings,
    kept_responses: KeptResponses,
    explainer: Explainer,
    *,
    stream_state: probes.StreamState,
    admin_access: AdminAccess,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]],
) -> FastAPI:
    api = FastAPI(title="Warmgate", version=version("warmgate"), lifespan=lifespan)
    api.state.models = models
    api.state.stream_state = stream_state
    api.state.metrics = metrics
    api.state.endings = endings
    api.state.kept_responses = kept_responses
    api.state.explainer = explainer
    api.state.admin_access = admin_access
    api.include_router(models_api.router)
    api.include_router(responses_api.router)
    api.include_router(probes.router)
    api.include_router(admin_api.router)
    api.include_router(explain_api.router)
    describe(api, ENDPOINTS.values())
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
    elif error.retry_after_s is not None:
        headers = {"retry-after": str(max(1, round(error.retry_after_s)))}
    if isinstance(error, AdminRefused):
        headers = {"www-authenticate": "Bearer"}
    return Response(error.to_body(), error.status, headers, media_type="application/json")


def _meant(path: str) -> str:
    """The end of a sentence that says what to use instead: of a path that engines have, or of a wrong base URL."""
    if path in INSTEAD:
        return f": {INSTEAD[path]}"
    for served in (*(path for path in ENDPOINTS if path.startswith("/v1/")), "/v1/models"):
        if path.rstrip("/").endswith(served.removeprefix("/v1")):
            return f"; did you mean {served}"
    return ""


def _naming_request(
    scope: MutableMapping[str, Any], receive: Receive, send: Send
) -> tuple[MutableMapping[str, Any], Receive, Send]:
    """The same with the caller's request id, or one made here, in request and response."""
    request_id = request_id_of(fields(scope["headers"])) or secrets.token_hex(16).encode()
    named = {**scope, "headers": [(b"x-request-id", request_id), *scope["headers"]]}

    async def naming(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
        await send(message)

    return named, receive, naming
