"""The composition root: the one place where the classes meet. Settings go in, an ASGI application comes out."""

import asyncio
import logging
import random
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
from fastapi import FastAPI
from prometheus_client import ProcessCollector
from prometheus_client.registry import Collector

from cache_index import Hasher, RadixTree
from cache_index.confirmed import Confirmed
from cache_index.residency import Residency
from cache_index.tokens import TokenHasher
from gateway.adapters.adapter_metrics import AdapterMetrics
from gateway.api.admin_access import AdminAccess
from gateway.api.admin_v1.access import admin_keys
from gateway.api.admin_v1.application import PREFIX as ADMIN_PREFIX
from gateway.api.admin_v1.application import admin_api
from gateway.api.admin_v1.parts import AdminGateway
from gateway.api.application import probes_api, public_api
from gateway.api.explain import Explainer
from gateway.api.usage import SelfView
from gateway.backends.client import WorkerClient
from gateway.cache_check import CacheCheck
from gateway.cache_metrics import CacheCollector
from gateway.cascade.assembly import Cascades, canary_rules
from gateway.cascade.canary import Canary
from gateway.cascade_metrics import CascadeMetrics
from gateway.configuration import Configuration, Reloader
from gateway.disconnects import Disconnects
from gateway.discovery.discoveries import Discoveries
from gateway.draining import Draining
from gateway.dynamo.pairing import Pairing
from gateway.endings import Endings, Observer
from gateway.endpoints.table import ENDPOINTS
from gateway.entrance import Gateway
from gateway.followers import Followers
from gateway.guardrails.assembly import Guardrails
from gateway.hangup import told_of_hangups
from gateway.health import Health
from gateway.http_client import HttpClient
from gateway.keep_alive import KeepAlive
from gateway.kept_responses import KeptResponses
from gateway.kv_events.intake import Intake
from gateway.live_settings import LiveSettings
from gateway.loop_watch import LoopWatch
from gateway.metrics import Metrics, StateCollector
from gateway.model_maker import Knowledge
from gateway.models import Models
from gateway.persistence import Persistence
from gateway.proxy import Proxy
from gateway.ranks.census import Census
from gateway.ranks.inquiry import Inquiry
from gateway.ranks.population import nobody, spread
from gateway.reloads import Reloaded, Reloads
from gateway.replicas.replicas import Replicas, sharing_of
from gateway.replicas.shared_key import KEY_BYTES, derived
from gateway.request_log import RequestLog, Sink
from gateway.response_owners import ResponseOwners
from gateway.rollout.route_metrics import RouteMetrics
from gateway.roster import Roster, rules_of
from gateway.settings import Settings
from gateway.start_checks import StartChecks
from gateway.store_metrics import StoreMetrics
from gateway.team_metrics import TeamMetrics
from gateway.tenancy import Tenancy
from gateway.tokenizers import Tokenizers
from gateway.tracing.tracing import Tracing

_log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

TOKEN_THREADS = 1
"""That make tokens of long prompts: native code beside the event loop; more would take the core that it has."""
BYTES_PER_TOKEN = 4.0
"""Until a model's own ratio is learnt; only the room of a worker that does not tell its size depends on it."""


def create_app(
    settings: Settings, *, configuration: Configuration | None = None, log_sink: Sink | None = None
) -> Gateway:
    """Build the gateway. No I/O happens before its lifespan begins.

    *settings* are those that *configuration* has loaded, which is followed; without one they stay as they are. Request
    lines go to *log_sink*, default stdout.
    """
    clock, wall_clock = time.monotonic, time.time  # noqa: TID251
    client = HttpClient(follow_redirects=False, limits=httpx.Limits(max_connections=None))
    questions = WorkerClient()
    models = Models()
    health = Health(rules_of(settings), client=questions, clock=clock, rng=random.Random())
    executor = ThreadPoolExecutor(max_workers=TOKEN_THREADS, thread_name_prefix="tokens")
    knowledge = _knowledge(settings, Tokenizers(executor=executor, client=client, clock=clock), questions, clock)
    cascades = Cascades(client, clock=clock)
    roster = Roster(
        models,
        health,
        knowledge=knowledge,
        cascades=cascades,
        clock=clock,
        rng=random.Random(settings.routing.seed),
    )
    draining = Draining(models, hand_over_after_s=settings.drain.hand_over_after_s, clock=clock)
    _man(roster, draining, spread(settings, nobody))
    tenancy = Tenancy(settings, wall_clock=wall_clock)
    tracing = _tracing(settings, clock)
    guardrails = Guardrails(client, clock=clock)
    guardrails.use(guardrails.of(settings))

    census = Census(
        _taking(roster, draining, tenancy, tracing, guardrails),
        _inquiry(settings, questions, client),
    )
    reloads = Reloads(wall_clock=wall_clock)
    discoveries = Discoveries(settings.kubernetes, clock=clock, rng=random.Random())
    live = LiveSettings(settings, take=census.take, discover=discoveries.of, reloads=reloads)
    reloader = None if configuration is None else Reloader(configuration, live.reload)
    team_metrics, loop_watch = TeamMetrics(lambda: tenancy.is_degraded), LoopWatch(clock=clock)
    replicas = _replicas(settings, models, knowledge, clock)
    metrics = _metrics(
        settings,
        models,
        knowledge,
        team_metrics,
        *(reloads, discoveries.sightings, replicas, _store_metrics(tenancy), loop_watch, tracing),
        *(AdapterMetrics(roster.shelf), guardrails.tally),
    )
    canary = Canary(
        lambda: [model.cascade for model in models],
        rules=lambda: canary_rules(live.configured),
        catalogue=lambda key: cascades.catalogue(live.configured, key),
        clock=clock,
    )
    start_checks = _start_checks(models, knowledge, client, clock)
    endings = Endings([metrics, team_metrics, tracing, *_request_logs(settings, log_sink)])
    disconnects = Disconnects()
    keep_alive = KeepAlive(silence_s=settings.server.sse_keep_alive_s)
    owners = ResponseOwners()
    proxy = Proxy(
        ENDPOINTS,
        models,
        admission=tenancy.admission,
        owners=owners,
        endings=endings,
        disconnects=disconnects,
        keep_alive=keep_alive,
        clock=clock,
        rng=random.Random(),
        max_body_bytes=settings.server.max_body_bytes,
        persistence=_persistence(settings),
        tracers=tracing.tracers,
        guarded=guardrails.in_force,
    )

    def loops() -> list[Coroutine[Any, Any, None]]:
        running = [health.run(), live.run(), knowledge.followers.run(), disconnects.run(), keep_alive.run()]
        running += [draining.run(), canary.run(), loop_watch.run(), census.run(), roster.shelf.run()]
        running += [*tenancy.loops(), *replicas.loops()]
        return [*running, start_checks.run()] if settings.kv_events.check else running

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with client, questions:
            for begin in (tenancy.begin, replicas.begin, live.find, census.ask, health.check):
                await begin()
            async with _running(loops, reloader):
                yield
            await _end(models, executor)
        await replicas.aclose()
        await tenancy.aclose()
        endings.settle()
        await asyncio.to_thread(tracing.close)

    api = public_api(
        models,
        metrics,
        endings,
        KeptResponses(models, owners, guardrails.in_force),
        Explainer(
            ENDPOINTS,
            models,
            owners,
            stream_state=knowledge.followers.state,
            max_body_bytes=settings.server.max_body_bytes,
        ),
        stream_state=knowledge.followers.state,
        sightings=discoveries.sightings,
        replicas=replicas.told,
        admin_access=_admin_access(settings),
        access=tenancy.access,
        draining=draining,
        lifespan=lifespan,
    )
    api.state.self_view = SelfView(
        tenancy.stores.usage, tenancy.stores.quota, tenancy.plans, models, tenancy.zone, wall_clock
    )
    admin = _admin(
        settings,
        tenancy,
        AdminGateway(models, lambda: live.configured, None if reloader is None else reloader.reload, draining=draining),
    )
    return Gateway(
        api,
        proxy,
        admin=admin,
        admin_prefix=ADMIN_PREFIX,
        is_admin_apart=settings.admin.port is not None,
        probes=probes_api(api),
    )


def _man(roster: Roster, draining: Draining, settings: Settings) -> None:
    """Have the workers of *settings* serve, and those drain that are to."""
    roster.take(settings)
    draining.declare(settings)


def _taking(
    roster: Roster, draining: Draining, tenancy: Tenancy, tracing: Tracing, guardrails: Guardrails
) -> Callable[[Settings], None]:
    """Puts settings in force, all of them or none."""

    def take(settings: Settings) -> None:
        declared, told = tenancy.declared(settings.teams), tracing.destinations(settings)  # may fail, change nothing
        guards = guardrails.of(settings)
        _man(roster, draining, settings)
        tenancy.declare(declared, settings.teams)
        tracing.use(told)
        guardrails.use(guards)

    return take


async def _end(models: Models, executor: ThreadPoolExecutor) -> None:
    for model in models:
        await model.aclose()
    executor.shutdown(wait=False, cancel_futures=True)


def _inquiry(settings: Settings, questions: WorkerClient, client: httpx.AsyncClient) -> Inquiry:
    return Inquiry(questions, Pairing(client, rng=random.Random()), timeout_s=settings.health.timeout_s)


def _metrics(
    settings: Settings, models: Models, knowledge: Knowledge, teams: TeamMetrics, *others: Collector
) -> Metrics:
    metrics = Metrics()
    ProcessCollector(registry=metrics.registry)
    index_bytes, confirmed_bytes = settings.index.max_bytes, settings.kv_events.max_bytes
    for collector in (
        *others,
        StateCollector(models, knowledge.index, max_index_bytes=index_bytes, clock=time.monotonic),
        CacheCollector(models, knowledge.followers, knowledge.confirmed, max_confirmed_bytes=confirmed_bytes),
        CascadeMetrics(lambda: [model.cascade for model in models], clock=time.monotonic),
        RouteMetrics(models),
        teams,
    ):
        metrics.registry.register(collector)
    return metrics


def _store_metrics(tenancy: Tenancy) -> StoreMetrics:
    return StoreMetrics(tenancy.stores.quota, keys_are_stale=lambda: tenancy.keys_are_stale)


def _persistence(settings: Settings) -> Persistence:
    retry = settings.retry
    return Persistence(
        most_attempts=retry.max_attempts,
        wait_s=retry.wait_s,
        first_byte_factor=retry.first_byte_factor,
        first_byte_margin_s=retry.first_byte_margin_s,
        stall_gaps=retry.stall_gaps,
        stall_s=retry.stall_s,
    )


def _tracing(settings: Settings, clock: Callable[[], float]) -> Tracing:
    instance = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    return Tracing(settings, instance=instance, clock=clock, wall_clock=time.time, rng=random.Random())  # noqa: TID251


def _request_logs(settings: Settings, sink: Sink | None) -> list[Observer]:
    """The one that is wanted, if one is."""
    if not settings.logging.requests:
        return []
    return [RequestLog(sink or sys.stdout.buffer, wall_clock=time.time)]  # noqa: TID251


def _admin(settings: Settings, tenancy: Tenancy, gateway: AdminGateway) -> FastAPI:
    stores = tenancy.stores
    return admin_api(
        admin_keys(settings.admin),
        store=stores.teams,
        directory=tenancy.directory,
        digester=tenancy.digester,
        usage_store=stores.usage,
        claims=stores.claims,
        wall_clock=time.time,  # noqa: TID251
        time_zone=settings.quota.time_zone,
        gateway=gateway,
    )


def _index(settings: Settings) -> RadixTree:
    room_bytes = settings.index.default_worker_blocks * settings.index.default_block_size * BYTES_PER_TOKEN
    return RadixTree(max_bytes=settings.index.max_bytes, default_capacity=int(room_bytes / settings.index.block_bytes))


def _knowledge(
    settings: Settings, tokenizers: Tokenizers, questions: WorkerClient, clock: Callable[[], float]
) -> Knowledge:
    events, sharing = settings.kv_events, sharing_of(settings)
    key = secrets.token_bytes(KEY_BYTES) if sharing is None else sharing.key
    token_hasher = TokenHasher(derived(key, "tokens"))
    residency = Residency(token_hasher, max_bytes=events.max_bytes)
    confirmed = Confirmed(residency, lifetime_s=events.prediction_s)
    intake = Intake(bind=events.bind, client=questions, clock=clock, wall_clock=time.time)  # noqa: TID251
    return Knowledge(
        index=_index(settings),
        hasher=Hasher(derived(key, "text"), block_bytes=settings.index.block_bytes),
        confirmed=confirmed,
        token_hasher=token_hasher,
        tokenizers=tokenizers,
        followers=Followers(confirmed, intake),
        sharing=sharing,
    )


def _start_checks(
    models: Models, knowledge: Knowledge, client: httpx.AsyncClient, clock: Callable[[], float]
) -> StartChecks:
    check = CacheCheck(client, knowledge.confirmed, clock=clock, nonce=partial(secrets.token_hex, 8))
    return StartChecks(models, knowledge.followers, check, knowledge.tokenizers)


def _replicas(settings: Settings, models: Models, knowledge: Knowledge, clock: Callable[[], float]) -> Replicas:
    def rehash(key: bytes) -> None:
        knowledge.rehash(key, [model.fleet for model in models])

    return Replicas(knowledge.sharing, settings, models, on_key=rehash, clock=clock)


def _admin_access(settings: Settings) -> AdminAccess:
    token = settings.server.admin_token
    return AdminAccess(token.get_secret_value() if token is not None else None)


@asynccontextmanager
async def _running(
    loops: Callable[[], Iterable[Coroutine[Any, Any, None]]], reloader: Reloader[Reloaded] | None
) -> AsyncIterator[None]:
    """Inside, *loops* run and settings are followed."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(loop) for loop in loops()]
        async with _reloading(reloader, tasks):
            yield
        for task in running:
            task.cancel()


@asynccontextmanager
async def _reloading(reloader: Reloader[Reloaded] | None, tasks: asyncio.TaskGroup) -> AsyncIterator[None]:
    """Inside, changes of the configuration are put in force; None: there are none."""
    if reloader is None:
        yield
        return
    loop = tasks.create_task(reloader.run())
    with told_of_hangups(reloader.ask):
        yield
    loop.cancel()
