"""The composition root: the one place where the classes meet. Settings go in, an ASGI application comes out."""

import asyncio
import random
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_network
from typing import Any

import httpx
from fastapi import FastAPI
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
from gateway.api.first_use import OFTEN_ASKED, used_once
from gateway.api.refused_logins import RefusedLogins
from gateway.api.usage import SelfView
from gateway.backends.client import WorkerClient
from gateway.bodies.bodies import Bodies
from gateway.bodies.budget import BodyBudget
from gateway.bodies.memory_guard import MemoryGuard, memory_limit, rss_bytes_of, trimmed
from gateway.bodies.reader import BodyReader
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
from gateway.errors import StoreAway
from gateway.followers import Followers
from gateway.guardrails.assembly import Guardrails
from gateway.hangup import told_of_hangups
from gateway.health import Health
from gateway.http_client import HttpClient
from gateway.keep_alive import KeepAlive
from gateway.kept_looks import KeptLooks
from gateway.kept_responses import KeptResponses
from gateway.kv_events.intake import Intake
from gateway.live_settings import LiveSettings
from gateway.loop_watch import LoopWatch
from gateway.metrics import Metrics, StateCollector
from gateway.model_maker import Knowledge
from gateway.models import Models
from gateway.persistence import Persistence
from gateway.process_metrics import ProcessMetrics
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
from gateway.settings_audit import SettingsAudit
from gateway.start_checks import StartChecks
from gateway.store_metrics import StoreMetrics
from gateway.team_metrics import TeamMetrics
from gateway.tenancy import Tenancy
from gateway.tokenizers import Tokenizers
from gateway.tracing.tracing import Tracing

Clock = Callable[[], float]
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

TOKEN_THREADS = 1
"""That make tokens of long prompts: native code beside the event loop; more would take the core that it has."""
BYTES_PER_TOKEN = 4.0
"""Until a model's own ratio is learnt; only the room of a worker that does not tell its size depends on it."""


@dataclass(frozen=True, slots=True)
class _Outside:
    """What everybody reaches the world with, besides the sockets of callers."""

    client: HttpClient
    questions: WorkerClient
    """For short questions to workers."""
    executor: ThreadPoolExecutor
    clock: Clock
    wall_clock: Clock


@dataclass(frozen=True, slots=True)
class _Fleet:
    """Who serves, and what is known of them."""

    models: Models
    health: Health
    knowledge: Knowledge
    cascades: Cascades
    roster: Roster
    draining: Draining


@dataclass(frozen=True, slots=True)
class _Rules:
    """What requests are held to, and where what was seen of them goes."""

    tenancy: Tenancy
    tracing: Tracing
    guardrails: Guardrails
    refused_logins: RefusedLogins


@dataclass(frozen=True, slots=True)
class _Followed:
    """Settings, as they change: by file, by discovery, by what engines tell of their ranks."""

    census: Census
    reloads: Reloads
    discoveries: Discoveries
    live: LiveSettings
    reloader: Reloader[Reloaded] | None
    audit: SettingsAudit


@dataclass(frozen=True, slots=True)
class _Path:
    """What requests go through."""

    proxy: Proxy
    endings: Endings
    disconnects: Disconnects
    keep_alive: KeepAlive
    owners: ResponseOwners
    kept_looks: KeptLooks
    bodies: Bodies
    body_reader: BodyReader
    memory_guard: MemoryGuard | None


@dataclass(frozen=True, slots=True)
class _Parts:
    """All of the gateway but its APIs."""

    outside: _Outside
    fleet: _Fleet
    rules: _Rules
    followed: _Followed
    replicas: Replicas
    canary: Canary
    start_checks: StartChecks | None
    loop_watch: LoopWatch
    metrics: Metrics
    path: _Path


def create_app(
    settings: Settings, *, configuration: Configuration | None = None, log_sink: Sink | None = None
) -> Gateway:
    """Build the gateway. No I/O happens before its lifespan begins.

    *settings* are those that *configuration* has loaded, which is followed; without one they stay as they are. Request
    lines go to *log_sink*, default stdout.
    """
    parts = _parts(settings, configuration, log_sink)
    admin = _admin(settings, parts)

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        async with _alive(parts):
            for app in (api, probes):
                await used_once(app, OFTEN_ASKED)
            await used_once(admin)
            yield

    api = _public(settings, parts, lifespan)
    probes = probes_api(api)
    return Gateway(
        api,
        parts.path.proxy,
        admin=admin,
        admin_prefix=ADMIN_PREFIX,
        is_admin_apart=settings.admin.port is not None,
        probes=probes,
        cors_origins=settings.server.cors_origins,
        compress_min_bytes=settings.server.compress_min_bytes,
    )


def _parts(settings: Settings, configuration: Configuration | None, log_sink: Sink | None) -> _Parts:
    outside = _Outside(
        HttpClient(follow_redirects=False, limits=httpx.Limits(max_connections=None)),
        WorkerClient(),
        ThreadPoolExecutor(max_workers=TOKEN_THREADS, thread_name_prefix="tokens"),
        clock=time.monotonic,
        wall_clock=time.time,  # noqa: TID251
    )
    fleet = _fleet(settings, outside)
    rules = _rules(settings, outside)
    followed = _followed(settings, configuration, outside, fleet, rules)
    replicas = _replicas(settings, fleet.models, fleet.knowledge, outside.clock)
    team_metrics = TeamMetrics(
        lambda: rules.tenancy.is_degraded,
        lambda: rules.tenancy.budgets.standing,
        lambda: rules.tenancy.soft_budgets.standing,
    )
    loop_watch = LoopWatch(clock=outside.clock)
    metrics = _metrics(
        settings,
        fleet,
        *(followed.reloads, followed.discoveries.sightings, replicas, _store_metrics(rules.tenancy), loop_watch),
        *(rules.tracing, AdapterMetrics(fleet.roster.shelf), rules.guardrails.tally, team_metrics),
    )
    logs = _request_logs(settings, log_sink)
    endings = Endings([metrics, team_metrics, rules.tracing, *logs])
    return _Parts(
        outside,
        fleet,
        rules,
        followed,
        replicas,
        _canary(fleet, followed.live, outside.clock),
        _start_checks(settings, fleet, outside),
        loop_watch,
        metrics,
        _path(settings, outside, fleet, rules, endings, Endings(logs)),
    )


def _fleet(settings: Settings, outside: _Outside) -> _Fleet:
    clock, models = outside.clock, Models()
    health = Health(rules_of(settings), client=outside.questions, clock=clock, rng=random.Random())
    tokenizers = Tokenizers(executor=outside.executor, client=outside.client, clock=clock)
    knowledge = _knowledge(settings, tokenizers, outside)
    cascades = Cascades(outside.client, clock=clock)
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
    return _Fleet(models, health, knowledge, cascades, roster, draining)


def _rules(settings: Settings, outside: _Outside) -> _Rules:
    guardrails = Guardrails(outside.client, clock=outside.clock)
    guardrails.use(guardrails.of(settings))
    tenancy = Tenancy(settings, wall_clock=outside.wall_clock)
    proxies = settings.server.trusted_proxies
    refused = RefusedLogins(tenancy.stores.teams, wall_clock=outside.wall_clock, trusted_proxies=proxies)
    return _Rules(tenancy, _tracing(settings, outside), guardrails, refused)


def _followed(
    settings: Settings, configuration: Configuration | None, outside: _Outside, fleet: _Fleet, rules: _Rules
) -> _Followed:
    pairing = Pairing(outside.client, rng=random.Random())
    inquiry = Inquiry(outside.questions, pairing, timeout_s=settings.health.timeout_s)
    census = Census(_taking(fleet, rules), inquiry)
    reloads = Reloads(wall_clock=outside.wall_clock)
    discoveries = Discoveries(settings.kubernetes, clock=outside.clock, rng=random.Random())
    tenancy = rules.tenancy
    audit = SettingsAudit(
        tenancy.stores.teams,
        claims=tenancy.stores.claims,
        origin="environment" if configuration is None else configuration.name,
        declared=tenancy.declared,
        digester=tenancy.digester,
        wall_clock=outside.wall_clock,
    )
    live = LiveSettings(settings, take=census.take, discover=discoveries.of, reloads=reloads, on_applied=audit.changed)
    tenancy.directory.follow_workers(live.have_added)
    reloader = None if configuration is None else Reloader(configuration, live.reload)
    return _Followed(census, reloads, discoveries, live, reloader, audit)


def _path(  # noqa: PLR0917  # in the order in which they are made
    settings: Settings, outside: _Outside, fleet: _Fleet, rules: _Rules, endings: Endings, looks: Endings
) -> _Path:
    disconnects = Disconnects()
    keep_alive = KeepAlive(silence_s=settings.server.sse_keep_alive_s)
    owners = ResponseOwners(rules.tenancy.stores.owners)
    server = settings.server
    reader = BodyReader(max_values=server.max_body_values, max_cpu_s=server.max_body_cpu_s)
    guard = _memory_guard(settings, reader)
    bodies = Bodies(
        max_body_bytes=server.max_body_bytes,
        budget=BodyBudget(server.max_bodies_bytes),
        reader=reader,
        guard=guard,
        only_model=fleet.models.only,
    )
    proxy = Proxy(
        ENDPOINTS,
        fleet.models,
        admission=rules.tenancy.admission,
        owners=owners,
        endings=endings,
        disconnects=disconnects,
        keep_alive=keep_alive,
        clock=outside.clock,
        rng=random.Random(),
        bodies=bodies,
        persistence=_persistence(settings),
        tracers=rules.tracing.tracers,
        guarded=rules.guardrails.in_force,
        max_concurrent_requests=settings.server.max_concurrent_requests,
    )
    kept_looks = KeptLooks(rules.tenancy.admission, looks, clock=outside.clock)
    return _Path(proxy, endings, disconnects, keep_alive, owners, kept_looks, bodies, reader, guard)


def _memory_guard(settings: Settings, reader: BodyReader) -> MemoryGuard | None:
    max_bytes = settings.server.max_memory_bytes or memory_limit()
    if max_bytes is None:
        return None
    return MemoryGuard(max_bytes, rss_bytes=lambda: rss_bytes_of(["self", *reader.rss_pids()]), trim=trimmed)


def _public(settings: Settings, parts: _Parts, lifespan: Lifespan) -> FastAPI:
    fleet, tenancy, path = parts.fleet, parts.rules.tenancy, parts.path
    stream_state = fleet.knowledge.followers.state
    api = public_api(
        fleet.models,
        parts.metrics,
        path.endings,
        KeptResponses(fleet.models, path.owners, parts.rules.guardrails.in_force),
        Explainer(
            ENDPOINTS,
            fleet.models,
            path.owners,
            stream_state=stream_state,
            bodies=path.bodies,
        ),
        kept_looks=path.kept_looks,
        stream_state=stream_state,
        sightings=parts.followed.discoveries.sightings,
        replicas=parts.replicas.told,
        admin_access=_admin_access(settings),
        access=tenancy.access,
        draining=fleet.draining,
        lifespan=lifespan,
    )
    api.state.started_at = int(parts.outside.wall_clock())
    api.state.refused_logins = parts.rules.refused_logins
    stores = tenancy.stores
    api.state.store = tenancy
    api.state.self_view = SelfView(
        stores.usage, stores.quota, tenancy.plans, fleet.models, tenancy.zone, parts.outside.wall_clock
    )
    return api


def _admin(settings: Settings, parts: _Parts) -> FastAPI:
    tenancy, followed = parts.rules.tenancy, parts.followed
    reload = None if followed.reloader is None else followed.reloader.reload
    return admin_api(
        admin_keys(settings.admin),
        store=tenancy.stores.teams,
        directory=tenancy.directory,
        digester=tenancy.digester,
        usage_store=tenancy.stores.usage,
        claims=tenancy.stores.claims,
        wall_clock=parts.outside.wall_clock,
        time_zone=settings.quota.time_zone,
        gateway=AdminGateway(
            parts.fleet.models,
            lambda: followed.live.configured,
            reload,
            draining=parts.fleet.draining,
            budgets=tenancy.budgets,
        ),
        refused_logins=parts.rules.refused_logins,
        guardrails=lambda: {each.name for each in followed.live.configured.guardrails},
        known_workers=followed.live.known_workers,
    )


# ---- its life


@asynccontextmanager
async def _alive(parts: _Parts) -> AsyncIterator[None]:
    """Inside, requests can be served."""
    outside, fleet, rules = parts.outside, parts.fleet, parts.rules
    followed, replicas = parts.followed, parts.replicas
    async with outside.client, outside.questions:
        for begin in (rules.tenancy.begin, replicas.begin, followed.live.find, followed.census.ask, fleet.health.check):
            await begin()
        async with _running(parts):
            yield
        for model in fleet.models:
            await model.aclose()
        outside.executor.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(parts.path.body_reader.close)
    await replicas.aclose()
    with suppress(StoreAway):
        await parts.path.owners.write()
    await rules.tenancy.aclose()
    parts.path.endings.settle()
    parts.path.kept_looks.settle()
    await asyncio.to_thread(rules.tracing.close)


@asynccontextmanager
async def _running(parts: _Parts) -> AsyncIterator[None]:
    """Inside, all that goes on by itself does, and settings are followed."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(loop) for loop in _loops(parts)]
        async with _reloading(parts.followed.reloader, tasks):
            yield
        for task in running:
            task.cancel()


def _loops(parts: _Parts) -> list[Coroutine[Any, Any, None]]:
    fleet, path = parts.fleet, parts.path
    running = [fleet.health.run(), fleet.knowledge.followers.run(), fleet.draining.run(), fleet.roster.shelf.run()]
    running += [parts.followed.live.run(), parts.followed.census.run(), path.disconnects.run(), path.keep_alive.run()]
    if path.memory_guard is not None:
        running.append(path.memory_guard.run())
    running += [parts.canary.run(), parts.loop_watch.run(), *parts.rules.tenancy.loops(), *parts.replicas.loops()]
    running.append(parts.rules.refused_logins.run())
    if parts.rules.tenancy.is_kept:
        live = parts.followed.live
        running.append(parts.followed.audit.started(lambda: live.in_force))
    running.append(path.owners.run())
    return running if parts.start_checks is None else [*running, parts.start_checks.run()]


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


# ---- its parts


def _man(roster: Roster, draining: Draining, settings: Settings) -> None:
    """Have the workers of *settings* serve, and those drain that are to."""
    roster.take(settings)
    draining.declare(settings)


def _taking(fleet: _Fleet, rules: _Rules) -> Callable[[Settings], None]:
    """Puts settings in force, all of them or none."""
    tenancy, tracing, guardrails = rules.tenancy, rules.tracing, rules.guardrails

    def take(settings: Settings) -> None:
        declared, told = tenancy.declared(settings.teams), tracing.destinations(settings)  # may fail, change nothing
        guards = guardrails.of(settings)
        _man(fleet.roster, fleet.draining, settings)
        tenancy.declare(declared, settings.teams)
        tracing.use(told)
        guardrails.use(guards)

    return take


def _metrics(settings: Settings, fleet: _Fleet, *others: Collector) -> Metrics:
    metrics, models, knowledge = Metrics(), fleet.models, fleet.knowledge
    index_bytes, confirmed_bytes = settings.index.max_bytes, settings.kv_events.max_bytes
    for collector in (
        *others,
        StateCollector(models, knowledge.index, max_index_bytes=index_bytes, clock=time.monotonic),
        CacheCollector(models, knowledge.followers, knowledge.confirmed, max_confirmed_bytes=confirmed_bytes),
        CascadeMetrics(lambda: [model.cascade for model in models], clock=time.monotonic),
        RouteMetrics(models),
        ProcessMetrics(),
    ):
        metrics.registry.register(collector)
    return metrics


def _store_metrics(tenancy: Tenancy) -> StoreMetrics:
    return StoreMetrics(
        tenancy.stores.quota,
        keys_are_stale=lambda: tenancy.keys_are_stale,
        state=lambda: tenancy.store_state,
    )


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


def _tracing(settings: Settings, outside: _Outside) -> Tracing:
    instance = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    return Tracing(settings, instance=instance, clock=outside.clock, wall_clock=outside.wall_clock, rng=random.Random())


def _request_logs(settings: Settings, sink: Sink | None) -> list[Observer]:
    """The one that is wanted, if one is."""
    if not settings.logging.requests:
        return []
    return [RequestLog(sink or sys.stdout.buffer, wall_clock=time.time)]  # noqa: TID251


def _index(settings: Settings) -> RadixTree:
    room_bytes = settings.index.default_worker_blocks * settings.index.default_block_size * BYTES_PER_TOKEN
    return RadixTree(max_bytes=settings.index.max_bytes, default_capacity=int(room_bytes / settings.index.block_bytes))


def _knowledge(settings: Settings, tokenizers: Tokenizers, outside: _Outside) -> Knowledge:
    events, sharing = settings.kv_events, sharing_of(settings)
    key = secrets.token_bytes(KEY_BYTES) if sharing is None else sharing.key
    token_hasher = TokenHasher(derived(key, "tokens"))
    residency = Residency(token_hasher, max_bytes=events.max_bytes)
    confirmed = Confirmed(residency, lifetime_s=events.prediction_s)
    intake = Intake(
        bind=events.bind,
        allowed=[ip_network(network) for network in events.allowed_cidrs],
        client=outside.questions,
        clock=outside.clock,
        wall_clock=outside.wall_clock,
    )
    return Knowledge(
        index=_index(settings),
        hasher=Hasher(derived(key, "text"), block_bytes=settings.index.block_bytes),
        confirmed=confirmed,
        token_hasher=token_hasher,
        tokenizers=tokenizers,
        followers=Followers(confirmed, intake),
        sharing=sharing,
    )


def _canary(fleet: _Fleet, live: LiveSettings, clock: Clock) -> Canary:
    return Canary(
        lambda: [model.cascade for model in fleet.models],
        rules=lambda: canary_rules(live.configured),
        catalogue=lambda key: fleet.cascades.catalogue(live.configured, key),
        clock=clock,
    )


def _start_checks(settings: Settings, fleet: _Fleet, outside: _Outside) -> StartChecks | None:
    """None: nobody wants them."""
    if not settings.kv_events.check:
        return None
    knowledge = fleet.knowledge
    check = CacheCheck(outside.client, knowledge.confirmed, clock=outside.clock, nonce=partial(secrets.token_hex, 8))
    return StartChecks(fleet.models, knowledge.followers, check, knowledge.tokenizers)


def _replicas(settings: Settings, models: Models, knowledge: Knowledge, clock: Clock) -> Replicas:
    def rehash(key: bytes) -> None:
        knowledge.rehash(key, [model.fleet for model in models])

    return Replicas(knowledge.sharing, settings, models, on_key=rehash, clock=clock)


def _admin_access(settings: Settings) -> AdminAccess:
    token = settings.server.admin_token
    return AdminAccess(token.get_secret_value() if token is not None else None)
