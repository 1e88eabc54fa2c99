"""Composition root of the gateway. It builds all objects from settings and returns an ASGI application."""

import asyncio
import random
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from prometheus_client.registry import Collector

from cache_index import Hasher, RadixTree
from cache_index.confirmed import Confirmed
from cache_index.residency import Residency
from cache_index.tokens import TokenHasher
from gateway.api.admin_access import AdminAccess
from gateway.api.admin_v1.application import PREFIX as ADMIN_PREFIX
from gateway.api.admin_v1.application import admin_api
from gateway.api.admin_v1.parts import AdminGateway
from gateway.api.application import probes_api, public_api
from gateway.api.explain import Explainer
from gateway.api.first_use import OFTEN_ASKED, used_once
from gateway.api.kept_looks import KeptLooks
from gateway.api.kept_responses import KeptResponses
from gateway.api.refused_logins import RefusedLogins
from gateway.api.scim.application import scim_api
from gateway.api.usage import SelfView
from gateway.app.alerts import Alerts
from gateway.app.asgi import Gateway
from gateway.app.batch_webhooks import BatchWebhooks
from gateway.app.batches import BatchParts, batch_parts
from gateway.app.config_source import ConfigSource, Reloader
from gateway.app.console import console_of
from gateway.app.diagnosis.gateway_diagnosis import GatewayDiagnosis
from gateway.app.fallbacks import FallbackFactory, canary_rules
from gateway.app.guardrails import Guardrails
from gateway.app.live_settings import LiveSettings, Take
from gateway.app.mapping.models import health_rules, serving_plan
from gateway.app.mapping.surroundings import (
    admin_keys,
    alert_rules,
    batch_rules,
    batch_webhook_rules,
    configured_models,
    console_rules,
    file_contents,
    file_rules,
    receiver_of,
    team_receivers,
    trace_rules,
)
from gateway.app.mapping.tenancy import declared_in, scim_secrets, tenancy_rules
from gateway.app.mapping.workers import access_of, model_workers, pace_of, parsed_workers, sharing_of
from gateway.app.model_factory import Knowledge
from gateway.app.processes.joining import join_processes, reload_in_all
from gateway.app.processes.link import ProcessLink
from gateway.app.reconciler import Reconciler
from gateway.app.settings_audit import SettingsAudit
from gateway.app.sighup import on_sighup
from gateway.app.start_checks import StartChecks
from gateway.app.store_rules import StoreAddressError
from gateway.app.tenancy import IdentityUnavailableError, Tenancy
from gateway.app.tokenizers import Tokenizers
from gateway.backends.client import WorkerClient
from gateway.backends.fallbacks.canary import Canary
from gateway.backends.http_client import HttpClient
from gateway.batch.counters import BatchCounters
from gateway.models.cache_check import CacheCheck
from gateway.models.registry import Models
from gateway.models.response_affinity.owners import ResponseOwners
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import StoreUnavailable
from gateway.proxy.bodies.bodies import Bodies
from gateway.proxy.bodies.budget import BodyBudget
from gateway.proxy.bodies.decoder import BodyDecoder
from gateway.proxy.bodies.memory_guard import MemoryGuard, memory_limit, rss_bytes_of, trimmed
from gateway.proxy.cached_answers import CachedAnswers
from gateway.proxy.completed_requests import CompletedRequests, Observer
from gateway.proxy.disconnects import Disconnects
from gateway.proxy.keep_alive import KeepAlive
from gateway.proxy.proxy import Proxy
from gateway.proxy.response_cache.answer_store import AnswerStore
from gateway.proxy.response_cache.response_cache import ResponseCache
from gateway.proxy.retry_policy import RetryPolicy
from gateway.server.asgi import App
from gateway.settings import Settings, SettingsError
from gateway.telemetry.adapter_metrics import AdapterMetrics
from gateway.telemetry.batch_metrics import BatchMetrics
from gateway.telemetry.cache_metrics import CacheCollector
from gateway.telemetry.caches.cache_activity import CacheActivity
from gateway.telemetry.caches.cache_map import CacheMaps
from gateway.telemetry.caches.index_truth import IndexTruths
from gateway.telemetry.caches.prefix_words import PrefixWords
from gateway.telemetry.caches.views import CacheViews
from gateway.telemetry.fallback_metrics import FallbackMetrics
from gateway.telemetry.loop_watch import LoopWatch
from gateway.telemetry.metrics import Metrics, StateCollector
from gateway.telemetry.process_metrics import BuildInfo, ProcessMetrics
from gateway.telemetry.receipts.receipts import Receipts
from gateway.telemetry.receipts.ring import ReceiptRing
from gateway.telemetry.reloads import Reloaded, Reloads
from gateway.telemetry.request_log import RequestLog, Sink
from gateway.telemetry.response_cache_metrics import ResponseCacheMetrics
from gateway.telemetry.route_metrics import RouteMetrics
from gateway.telemetry.shapes.recorder import ShapeRecorder
from gateway.telemetry.shapes.segments import Segments
from gateway.telemetry.store_metrics import StoreMetrics
from gateway.telemetry.team_metrics import TeamMetrics
from gateway.telemetry.trace_export.tracing import Destination, TracesUnavailableError, Tracing
from gateway.telemetry.traffic_counters import TrafficCounters
from gateway.telemetry.traffic_history import TrafficHistory
from gateway.telemetry.what_if.runner import WhatIfRunner
from gateway.telemetry.what_if.what_if import WhatIf
from gateway.tenancy.quota.limit_status import LimitStatus, Owners
from gateway.tenancy.teams.team import Team
from gateway.workers.discovery.discoveries import Discoveries
from gateway.workers.draining import Draining
from gateway.workers.dynamo.pairing import Pairing
from gateway.workers.event_subscriptions import EventSubscriptions
from gateway.workers.health import Health
from gateway.workers.kv_events.intake import Intake
from gateway.workers.rank_discovery.address_probe import AddressProbe
from gateway.workers.rank_discovery.expansion import expanded, nothing_known
from gateway.workers.rank_discovery.rank_discovery import RankDiscovery
from gateway.workers.replicas.replicas import Replicas
from gateway.workers.replicas.shared_key import KEY_BYTES, derived
from gateway.workers.worker_spec import ModelWorkers

Clock = Callable[[], float]
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

TOKEN_THREADS = 1
"""Number of threads that tokenize long prompts outside the event loop.

More threads would take CPU time from the loop.
"""
BYTES_PER_TOKEN = 4.0
"""Assumed bytes per token until a model's ratio is measured. It sizes the cache of workers that report no size."""


@dataclass(frozen=True, slots=True)
class _Outside:
    """HTTP clients, threads and clocks that all parts of the gateway share."""

    client: HttpClient
    questions: WorkerClient
    """Client for short requests to workers, such as health checks."""
    executor: ThreadPoolExecutor
    clock: Clock
    wall_clock: Clock
    process: ProcessLink | None = None
    """Connection to the supervisor, or None if the gateway has one process."""


@dataclass(frozen=True, slots=True)
class _Fleet:
    """Models of the gateway, their workers, and the known state of the workers."""

    models: Models
    health: Health
    knowledge: Knowledge
    fallback_factory: FallbackFactory
    reconciler: Reconciler
    draining: Draining


@dataclass(frozen=True, slots=True)
class _Rules:
    """Request limits, guardrails and trace destinations."""

    tenancy: Tenancy
    tracing: Tracing
    guardrails: Guardrails
    refused_logins: RefusedLogins


@dataclass(frozen=True, slots=True)
class _Followed:
    """Objects that apply changes from the settings file, from worker discovery and from rank discovery."""

    rank_discovery: RankDiscovery
    reloads: Reloads
    discoveries: Discoveries
    live: LiveSettings
    reloader: Reloader[Reloaded] | None
    audit: SettingsAudit


@dataclass(frozen=True, slots=True)
class _Path:
    """Objects through which every request passes."""

    proxy: Proxy
    completed_requests: CompletedRequests
    disconnects: Disconnects
    keep_alive: KeepAlive
    owners: ResponseOwners
    kept_looks: KeptLooks
    bodies: Bodies
    body_reader: BodyDecoder
    memory_guard: MemoryGuard | None


@dataclass(frozen=True, slots=True)
class _Shapes:
    """Recorder of request shapes, and its files."""

    recorder: ShapeRecorder
    files: Segments


@dataclass(frozen=True, slots=True)
class _Parts:
    """All parts of the gateway except its HTTP APIs."""

    outside: _Outside
    fleet: _Fleet
    rules: _Rules
    followed: _Followed
    replicas: Replicas
    canary: Canary
    start_checks: StartChecks | None
    traffic: TrafficCounters
    cache_activity: CacheActivity | None
    shapes: _Shapes | None
    """Recorded request shapes, or None if they are not recorded."""
    what_if: WhatIf
    loop_watch: LoopWatch
    metrics: Metrics
    receipts: ReceiptRing | None
    history: TrafficHistory
    path: _Path
    batch: BatchParts | None
    """Files and batches of teams, or None if the gateway does not serve them."""
    alerts: Alerts


@dataclass(frozen=True, slots=True)
class Inside:
    """Parts of a running gateway for a server beside the HTTP server."""

    proxy: App
    api: App
    models: Models
    clock: Clock
    needs_keys: Callable[[], bool]
    """Function that returns whether callers need keys."""


Beside = Callable[[Inside], AbstractAsyncContextManager[None]]
"""Function that returns the context in which a server runs beside the HTTP server."""


def create_app(
    settings: Settings,
    *,
    beside: Beside | None = None,
    configuration: ConfigSource | None = None,
    log_sink: Sink | None = None,
    login_token: str | None = None,
    process: ProcessLink | None = None,
) -> Gateway:
    """Build the gateway from *settings*. No I/O takes place before the lifespan of the application starts.

    If *configuration* is given, the gateway reloads settings from it when it changes. Request log lines are written to
    *log_sink*, or to stdout if it is None. *beside* runs another server as long as the gateway runs. *login_token* is
    the token of a one-time link to the console. *process* connects one of several processes of a gateway.
    """
    parts = _parts(settings, configuration, log_sink, process)
    if process is not None:
        _join(process, parts)
    admin = _admin(settings, parts)

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        async with _alive(parts):
            for app in (api, probes):
                await used_once(app, OFTEN_ASKED)
            await used_once(admin)
            async with _beside(beside, parts, api):
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
        console=console_of(
            console_rules(settings),
            admin=admin,
            keys=admin_keys(settings.admin),
            refused_logins=parts.rules.refused_logins,
            store=parts.rules.tenancy.stores.teams,
            wall_clock=parts.outside.wall_clock,
            clock=parts.outside.clock,
            completions=parts.path.proxy,
            providers=parts.rules.tenancy.login_providers(parts.outside.clock),
            login_token=login_token,
        ),
        scim=_scim(settings, parts),
        cors_origins=settings.server.cors_origins,
        compress_min_bytes=settings.server.compress_min_bytes,
    )


def _join(process: ProcessLink, parts: _Parts) -> None:
    """Connect this process with the other processes of the gateway."""

    def exposition() -> bytes:
        parts.path.completed_requests.settle()
        return parts.metrics.exposition()

    async def sliced_exposition() -> bytes:
        parts.path.completed_requests.settle()
        return await parts.metrics.exposition_in_slices()

    fleet, reloader = parts.fleet, parts.followed.reloader
    join_processes(process, exposition, sliced_exposition, fleet.draining, None if reloader is None else reloader.ask)


def _beside(beside: Beside | None, parts: _Parts, api: App) -> AbstractAsyncContextManager[None]:
    if beside is None:
        return nullcontext()
    tenancy = parts.rules.tenancy
    inside = Inside(
        parts.path.proxy, api, parts.fleet.models, parts.outside.clock, needs_keys=lambda: not tenancy.is_open
    )
    return beside(inside)


def _parts(
    settings: Settings, configuration: ConfigSource | None, log_sink: Sink | None, process: ProcessLink | None
) -> _Parts:
    outside = _Outside(
        HttpClient(follow_redirects=False, limits=httpx.Limits(max_connections=None)),
        WorkerClient(),
        ThreadPoolExecutor(max_workers=TOKEN_THREADS, thread_name_prefix="tokens"),
        clock=time.monotonic,
        wall_clock=time.time,  # noqa: TID251
        process=process,
    )
    fleet = _fleet(settings, outside)
    rules = _rules(settings, outside)
    followed = _followed(settings, configuration, outside, fleet, rules)
    cache_activity = _cache_activity(settings, outside, fleet, rules.tracing)
    replicas = _replicas(fleet.models, fleet.knowledge, cache_activity, outside.clock)
    team_metrics = TeamMetrics(
        lambda: rules.tenancy.is_degraded,
        lambda: rules.tenancy.budgets.statuses,
        lambda: rules.tenancy.soft_budgets.statuses,
    )
    loop_watch, cache = LoopWatch(clock=outside.clock), _response_cache(settings, outside)
    alerts = Alerts(alert_rules(settings.alerts), rules.tenancy, outside.client, wall_clock=outside.wall_clock)
    webhooks, batch_counters = _batch_webhooks(settings, outside, rules.tenancy), BatchCounters()
    batch_metrics = BatchMetrics(batch_counters, webhooks.delivery.counts)
    metrics = _metrics(
        settings,
        fleet,
        *(followed.reloads, followed.discoveries.discovery_status, replicas, _store_metrics(rules.tenancy), loop_watch),
        *(rules.tracing, AdapterMetrics(fleet.reconciler.adapter_registry), rules.guardrails.counters, team_metrics),
        *(batch_metrics, ResponseCacheMetrics(cache), alerts.metrics),
    )
    logs = _request_logs(settings, log_sink, process)
    traffic = TrafficCounters()
    receipts = _receipts(settings, outside)
    shapes = _shapes(settings, outside)
    recorder = None if shapes is None else shapes.recorder
    kept: list[Observer] = [each for each in (cache_activity, receipts, recorder) if each is not None]
    completed_requests = CompletedRequests([metrics, team_metrics, traffic, rules.tracing, *kept, *logs])
    path = _path(settings, outside, fleet, rules, cache, completed_requests, CompletedRequests(logs))
    return _Parts(
        outside,
        fleet,
        rules,
        followed,
        replicas,
        _canary(fleet, followed.live, outside.clock),
        _start_checks(settings, fleet, outside),
        traffic,
        cache_activity,
        shapes,
        _what_if(settings, shapes, completed_requests, outside),
        loop_watch,
        metrics,
        receipts,
        _history(metrics, team_metrics, fleet.models, completed_requests, outside),
        path,
        _batch(settings, outside, fleet, rules.tenancy, path.proxy, batch_counters, webhooks),
        alerts,
    )


def _fleet(settings: Settings, outside: _Outside) -> _Fleet:
    clock, models = outside.clock, Models()
    health = Health(health_rules(settings), client=outside.questions, clock=clock, rng=random.Random())
    tokenizers = Tokenizers(executor=outside.executor, client=outside.client, clock=clock)
    knowledge = _knowledge(settings, tokenizers, outside)
    fallback_factory = FallbackFactory(outside.client, clock=clock)
    reconciler = Reconciler(
        models,
        health,
        knowledge=knowledge,
        clock=clock,
        rng=random.Random(settings.routing.seed),
    )
    draining = Draining(models, hand_over_after_s=settings.drain.hand_over_after_s, clock=clock)
    _apply_workers(
        reconciler, fallback_factory, draining, settings, expanded(model_workers(settings.models), nothing_known)
    )
    return _Fleet(models, health, knowledge, fallback_factory, reconciler, draining)


def _rules(settings: Settings, outside: _Outside) -> _Rules:
    guardrails = Guardrails(outside.client, clock=outside.clock)
    guardrails.use(guardrails.build(settings))
    tenancy = _tenancy(settings, outside)
    proxies = settings.server.trusted_proxies
    refused = RefusedLogins(tenancy.stores.teams, wall_clock=outside.wall_clock, trusted_proxies=proxies)
    return _Rules(tenancy, _tracing(settings, outside), guardrails, refused)


def _followed(
    settings: Settings, configuration: ConfigSource | None, outside: _Outside, fleet: _Fleet, rules: _Rules
) -> _Followed:
    pairing = Pairing(outside.client, rng=random.Random())
    address_probe = AddressProbe(outside.questions, pairing, timeout_s=settings.health.timeout_s)
    rank_discovery = RankDiscovery(
        address_probe, networks=[ip_network(network) for network in settings.kv_events.allowed_cidrs]
    )
    reloads = Reloads(wall_clock=outside.wall_clock)
    discoveries = Discoveries(
        *(access_of(settings.kubernetes), pace_of(settings.kubernetes)),
        parse=parsed_workers,
        objectives=fleet.knowledge.objectives,
        rewrites=fleet.knowledge.rewrites,
        clock=outside.clock,
        rng=random.Random(),
    )
    tenancy = rules.tenancy
    audit = SettingsAudit(
        tenancy.stores.teams,
        claims=tenancy.stores.claims,
        origin="environment" if configuration is None else configuration.name,
        declared=lambda in_force: tenancy.declared(partial(declared_in, in_force.settings)),
        digester=tenancy.digester,
        wall_clock=outside.wall_clock,
    )
    live = LiveSettings(
        settings,
        take=_taking(rank_discovery, fleet, rules),
        discover=discoveries.make,
        reloads=reloads,
        on_applied=audit.changed,
    )
    tenancy.directory.follow_workers(live.have_added)
    tenancy.directory.follow_routes(fleet.models.use_weights)
    reloader = None if configuration is None else Reloader(configuration, live.reload)
    return _Followed(rank_discovery, reloads, discoveries, live, reloader, audit)


def _path(  # noqa: PLR0917  # in the order in which they are made
    settings: Settings,
    outside: _Outside,
    fleet: _Fleet,
    rules: _Rules,
    cache: ResponseCache,
    completed_requests: CompletedRequests,
    looks: CompletedRequests,
) -> _Path:
    disconnects = Disconnects()
    keep_alive = KeepAlive(silence_s=settings.server.sse_keep_alive_s)
    owners = ResponseOwners(rules.tenancy.stores.owners)
    server = settings.server
    reader = BodyDecoder(max_values=server.max_body_values, max_cpu_s=server.max_body_cpu_s)
    guard = _memory_guard(settings, reader)
    bodies = Bodies(
        max_body_bytes=server.max_body_bytes,
        budget=BodyBudget(server.max_bodies_bytes),
        reader=reader,
        guard=guard,
        only_model=fleet.models.only,
        rewritten=fleet.models.rewritten,
    )
    proxy = Proxy(
        ENDPOINTS,
        fleet.models,
        admission=rules.tenancy.admission,
        owners=owners,
        completed_requests=completed_requests,
        disconnects=disconnects,
        keep_alive=keep_alive,
        clock=outside.clock,
        rng=random.Random(),
        bodies=bodies,
        retry_policy=_retry_policy(settings),
        tracers=rules.tracing.tracers,
        guarded=rules.guardrails.in_force,
        cached_answers=CachedAnswers(cache, rules.tenancy.admission, disconnects),
        max_concurrent_requests=settings.server.max_concurrent_requests,
        keeps_decisions=_keeps_receipts(settings),
    )
    kept_looks = KeptLooks(rules.tenancy.admission, looks, clock=outside.clock)
    return _Path(proxy, completed_requests, disconnects, keep_alive, owners, kept_looks, bodies, reader, guard)


def _response_cache(settings: Settings, outside: _Outside) -> ResponseCache:
    """Return the cache of complete answers, which stays empty if no model uses it."""
    cache = settings.response_cache
    store = AnswerStore(max_bytes=cache.max_bytes, max_answer_bytes=cache.max_answer_bytes, expire_s=cache.expire_s)
    secret = secrets.token_bytes(KEY_BYTES)
    return ResponseCache(store, secret=secret, charge_share=cache.charge_share, clock=outside.clock)


def _memory_guard(settings: Settings, reader: BodyDecoder) -> MemoryGuard | None:
    max_bytes = settings.server.max_memory_bytes or memory_limit()
    if max_bytes is None:
        return None
    return MemoryGuard(max_bytes, rss_bytes=lambda: rss_bytes_of(["self", *reader.rss_pids()]), trim=trimmed)


def _public(settings: Settings, parts: _Parts, lifespan: Lifespan) -> FastAPI:
    fleet, tenancy, path = parts.fleet, parts.rules.tenancy, parts.path
    stream_state = fleet.knowledge.event_subscriptions.state
    api = public_api(
        fleet.models,
        parts.metrics,
        path.completed_requests,
        KeptResponses(fleet.models, path.owners, parts.rules.guardrails.in_force),
        _explainer(parts),
        kept_looks=path.kept_looks,
        stream_state=stream_state,
        discovery_status=parts.followed.discoveries.discovery_status,
        replicas=parts.replicas.report,
        admin_access=AdminAccess(admin_keys(settings.admin), tenancy.admin_tokens),
        access=tenancy.access,
        lifespan=lifespan,
    )
    api.state.started_at = int(parts.outside.wall_clock())
    api.state.refused_logins = parts.rules.refused_logins
    stores = tenancy.stores
    api.state.store = tenancy
    if parts.outside.process is not None:
        api.state.merged_metrics = parts.outside.process.merged_metrics
    if parts.batch is not None:
        api.state.files, api.state.batches = parts.batch.files, parts.batch.batches
    api.state.self_view = SelfView(
        stores.usage, stores.quota, tenancy.plans, fleet.models, tenancy.zone, parts.outside.wall_clock
    )
    return api


def _scim(settings: Settings, parts: _Parts) -> FastAPI | None:
    """Return the server through which issuers provision people and groups, or None if no issuer does."""
    issuers, tenancy = scim_secrets(settings.identity), parts.rules.tenancy
    if not issuers:
        return None
    return scim_api(
        issuers,
        store=tenancy.stores.teams,
        directory=tenancy.directory,
        refused_logins=parts.rules.refused_logins,
        wall_clock=parts.outside.wall_clock,
    )


def _admin(settings: Settings, parts: _Parts) -> FastAPI:
    tenancy, followed = parts.rules.tenancy, parts.followed
    reload = None if followed.reloader is None else followed.reloader.reload
    if reload is not None and parts.outside.process is not None:
        reload = reload_in_all(parts.outside.process, reload)
    return admin_api(
        admin_keys(settings.admin),
        admin_tokens=tenancy.admin_tokens,
        store=tenancy.stores.teams,
        directory=tenancy.directory,
        digester=tenancy.digester,
        usage_store=tenancy.stores.usage,
        claims=tenancy.stores.claims,
        wall_clock=parts.outside.wall_clock,
        time_zone=settings.quota.time_zone,
        gateway=AdminGateway(
            parts.fleet.models,
            lambda: configured_models(followed.live.configured),
            reload,
            draining=parts.fleet.draining,
            budgets=tenancy.budgets,
            limits=partial(_limits_of, tenancy, parts.fleet.models, parts.outside.wall_clock),
            clock=parts.outside.clock,
            history=parts.history,
            facts=_diagnosis(parts).facts,
            receipts=_readable(parts),
            explainer=_explainer(parts),
            caches=_cache_views(settings, parts),
            batches=None if parts.batch is None else parts.batch.batches,
            files=None if parts.batch is None else parts.batch.files,
            what_if=parts.what_if,
            issuers=frozenset(each.name for each in settings.identity.issuers),
        ),
        refused_logins=parts.rules.refused_logins,
        guardrails=lambda: {each.name for each in followed.live.configured.guardrails},
        known_workers=followed.live.known_workers,
    )


def _explainer(parts: _Parts) -> Explainer:
    fleet, path = parts.fleet, parts.path
    stream_state = fleet.knowledge.event_subscriptions.state
    return Explainer(ENDPOINTS, fleet.models, path.owners, stream_state=stream_state, bodies=path.bodies)


def _readable(parts: _Parts) -> Receipts | None:
    return None if parts.receipts is None else Receipts(parts.receipts, parts.path.completed_requests.settle)


async def _limits_of(
    tenancy: Tenancy, models: Models, wall_clock: Clock, team: Team, owners: Owners
) -> list[LimitStatus]:
    return await tenancy.limits_of(team, owners, [model.metered for model in models], wall_clock())


def _history(
    metrics: Metrics, team_metrics: TeamMetrics, models: Models, completed: CompletedRequests, outside: _Outside
) -> TrafficHistory:
    return TrafficHistory(
        metrics.counters,
        team_metrics.counters,
        models,
        settle=completed.settle,
        wall_clock=outside.wall_clock,
    )


def _diagnosis(parts: _Parts) -> GatewayDiagnosis:
    fleet, tenancy, live = parts.fleet, parts.rules.tenancy, parts.followed.live
    return GatewayDiagnosis(
        models=fleet.models,
        streams=fleet.knowledge.event_subscriptions,
        confirmed=fleet.knowledge.confirmed,
        checks=parts.start_checks,
        traffic=parts.traffic,
        tenancy=tenancy,
        canary_rules=lambda: canary_rules(live.configured),
        open_mode=lambda: live.configured.server.open_mode,
        clock=parts.outside.clock,
        wall_clock=parts.outside.wall_clock,
    )


# ---- its life


@asynccontextmanager
async def _alive(parts: _Parts) -> AsyncIterator[None]:
    """Start all parts of the gateway, so that it serves requests inside the context. Close all parts at the end."""
    outside, fleet, rules = parts.outside, parts.fleet, parts.rules
    followed, replicas = parts.followed, parts.replicas
    async with outside.client, outside.questions:
        for begin in (
            rules.tenancy.begin,
            replicas.begin,
            followed.live.find,
            followed.rank_discovery.ask,
            fleet.health.check,
        ):
            await begin()
        async with _running(parts):
            yield
        for model in fleet.models:
            await model.aclose()
        if parts.batch is not None:
            parts.batch.files.contents.close()
        outside.executor.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(parts.path.body_reader.close)
    await replicas.aclose()
    with suppress(StoreUnavailable):
        await parts.path.owners.write()
    await rules.tenancy.aclose()
    parts.path.completed_requests.settle()
    parts.path.kept_looks.settle()
    if parts.shapes is not None:
        parts.shapes.recorder.close()
    await asyncio.to_thread(rules.tracing.close)


@asynccontextmanager
async def _running(parts: _Parts) -> AsyncIterator[None]:
    """Run all background loops and apply configuration changes inside the context."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(loop) for loop in _loops(parts)]
        async with _reloading(parts.followed.reloader, tasks):
            yield
        for task in running:
            task.cancel()


def _loops(parts: _Parts) -> list[Coroutine[Any, Any, None]]:
    fleet, path = parts.fleet, parts.path
    running = [
        fleet.health.run(),
        fleet.knowledge.event_subscriptions.run(),
        fleet.draining.run(),
        fleet.reconciler.adapter_registry.run(),
    ]
    running += [
        parts.followed.live.run(),
        parts.followed.rank_discovery.run(),
        path.disconnects.run(),
        path.keep_alive.run(),
    ]
    if path.memory_guard is not None:
        running.append(path.memory_guard.run())
    running += [
        parts.canary.run(),
        parts.loop_watch.run(),
        parts.history.run(),
        *parts.rules.tenancy.loops(),
        *parts.alerts.loops(),
        *parts.replicas.loops(),
    ]
    if parts.cache_activity is not None:
        running.append(parts.cache_activity.run())
    running += [parts.rules.refused_logins.run(), parts.what_if.runner.run()]
    if parts.rules.tenancy.is_kept:
        live = parts.followed.live
        running.append(parts.followed.audit.started(lambda: live.in_force))
    running.append(path.owners.run())
    if parts.batch is not None:
        running += parts.batch.loops()
    if parts.outside.process is not None:
        running.append(parts.outside.process.run())
    return running if parts.start_checks is None else [*running, parts.start_checks.run()]


@asynccontextmanager
async def _reloading(reloader: Reloader[Reloaded] | None, tasks: asyncio.TaskGroup) -> AsyncIterator[None]:
    """Apply configuration changes inside the context. If *reloader* is None, the configuration is fixed."""
    if reloader is None:
        yield
        return
    loop = tasks.create_task(reloader.run())
    with on_sighup(reloader.ask):
        yield
    loop.cancel()


# ---- its parts


def _apply_workers(
    reconciler: Reconciler,
    fallback_factory: FallbackFactory,
    draining: Draining,
    settings: Settings,
    models: Sequence[ModelWorkers],
) -> None:
    """Apply *settings* to the workers of *models*, and drain the workers marked for draining."""
    reconciler.take(serving_plan(settings, models, fallback_factory))
    draining.declare(models)


def _taking(rank_discovery: RankDiscovery, fleet: _Fleet, rules: _Rules) -> Take:
    """Return a function that applies settings and workers together. If it raises an error, nothing has changed."""
    tenancy, tracing, guardrails = rules.tenancy, rules.tracing, rules.guardrails

    def put(settings: Settings, models: Sequence[ModelWorkers]) -> None:
        declaring = partial(declared_in, settings)
        declared, destinations = (
            tenancy.declared(declaring),
            _destinations(tracing, settings),
        )  # may fail, change nothing
        guards = guardrails.build(settings)
        _apply_workers(fleet.reconciler, fleet.fallback_factory, fleet.draining, settings, models)
        tenancy.declare(declared, declaring)
        tracing.use(destinations)
        guardrails.use(guards)

    def take(settings: Settings, models: Sequence[ModelWorkers]) -> None:
        rank_discovery.take(models, partial(put, settings))

    return take


def _metrics(settings: Settings, fleet: _Fleet, *others: Collector) -> Metrics:
    metrics, models, knowledge = Metrics(), fleet.models, fleet.knowledge
    index_bytes, confirmed_bytes = settings.index.max_bytes, settings.kv_events.max_bytes
    for collector in (
        *others,
        StateCollector(models, knowledge.index, max_index_bytes=index_bytes, clock=time.monotonic),
        CacheCollector(models, knowledge.event_subscriptions, knowledge.confirmed, max_confirmed_bytes=confirmed_bytes),
        FallbackMetrics(lambda: [model.fallbacks for model in models], clock=time.monotonic),
        RouteMetrics(models),
        ProcessMetrics(),
        BuildInfo(),
    ):
        metrics.register(collector)
    return metrics


def _store_metrics(tenancy: Tenancy) -> StoreMetrics:
    return StoreMetrics(
        tenancy.stores.quota,
        keys_are_stale=lambda: tenancy.keys_are_stale,
        state=lambda: tenancy.store_state,
    )


def _retry_policy(settings: Settings) -> RetryPolicy:
    retry, advanced = settings.retry, settings.advanced
    return RetryPolicy(
        max_attempts=retry.max_attempts,
        wait_s=retry.wait_s,
        first_byte_factor=advanced.first_byte_factor,
        first_byte_margin_s=advanced.first_byte_margin_s,
        stall_gaps=advanced.stall_gaps,
        stall_s=advanced.stall_s,
    )


def _tracing(settings: Settings, outside: _Outside) -> Tracing:
    instance = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    try:
        return Tracing(
            *(trace_rules(settings.tracing), receiver_of(settings.tracing), team_receivers(settings)),
            instance=instance,
            clock=outside.clock,
            wall_clock=outside.wall_clock,
            rng=random.Random(),
        )
    except TracesUnavailableError as fault:
        raise SettingsError([str(fault)]) from None


def _destinations(tracing: Tracing, settings: Settings) -> Mapping[str, Destination]:
    try:
        return tracing.destinations(team_receivers(settings))
    except TracesUnavailableError as fault:
        raise SettingsError([str(fault)]) from None


def _tenancy(settings: Settings, outside: _Outside) -> Tenancy:
    try:
        process = outside.process
        rules = tenancy_rules(
            settings,
            is_store_hidden=process is not None and process.is_store_hidden,
            table=None if process is None else process.table,
        )
        return Tenancy(rules, partial(declared_in, settings), wall_clock=outside.wall_clock)
    except (StoreAddressError, IdentityUnavailableError) as fault:
        raise SettingsError([str(fault)]) from None


def _request_logs(settings: Settings, sink: Sink | None, process: ProcessLink | None) -> list[Observer]:
    """Return the request log as a list with one entry, or an empty list if the log is disabled."""
    if not settings.logging.requests:
        return []
    number = None if process is None else process.number
    return [RequestLog(sink or sys.stdout.buffer, wall_clock=time.time, process=number)]  # noqa: TID251


def _keeps_receipts(settings: Settings) -> bool:
    """Return whether receipts are kept, which only administrators can read."""
    return settings.admin.receipts > 0 and bool(settings.admin.keys)


def _receipts(settings: Settings, outside: _Outside) -> ReceiptRing | None:
    if not _keeps_receipts(settings):
        return None
    return ReceiptRing(settings.admin.receipts, clock=outside.clock, wall_clock=outside.wall_clock)


def _shapes(settings: Settings, outside: _Outside) -> _Shapes | None:
    """Return the recorder of request shapes with its files, or None if the settings disable it."""
    shapes = settings.request_shapes
    if not shapes.enabled:
        return None
    files = Segments(
        None if shapes.directory is None else Path(shapes.directory),
        max_bytes=shapes.max_bytes,
        keep_s=shapes.keep_s,
        wall_clock=outside.wall_clock,
    )
    recorder = ShapeRecorder(
        files, block_bytes=settings.index.block_bytes, clock=outside.clock, wall_clock=outside.wall_clock
    )
    return _Shapes(recorder, files)


def _what_if(
    settings: Settings, shapes: _Shapes | None, completed_requests: CompletedRequests, outside: _Outside
) -> WhatIf:
    def write() -> None:
        completed_requests.settle()
        if shapes is not None:
            shapes.recorder.write()

    return WhatIf(
        WhatIfRunner(outside.wall_clock),
        None if shapes is None else shapes.files,
        write,
        settings.index.default_worker_blocks * settings.index.default_block_size,
        outside.wall_clock,
    )


def _batch_webhooks(settings: Settings, outside: _Outside, tenancy: Tenancy) -> BatchWebhooks:
    return BatchWebhooks(
        *(batch_webhook_rules(settings.batches), tenancy.stores.batch_events, outside.client),
        wall_clock=outside.wall_clock,
    )


def _batch(  # noqa: PLR0917  # in the order in which they are made
    settings: Settings,
    outside: _Outside,
    fleet: _Fleet,
    tenancy: Tenancy,
    proxy: Proxy,
    counters: BatchCounters,
    webhooks: BatchWebhooks,
) -> BatchParts | None:
    """Return files and batches, or None if the settings name no place for their contents."""
    rules = file_rules(settings)
    if rules is None:
        return None
    return batch_parts(
        file_contents(settings),
        rules,
        batch_rules(settings),
        tenancy=tenancy,
        models=fleet.models,
        proxy=proxy,
        counters=counters,
        webhooks=webhooks,
        wall_clock=outside.wall_clock,
    )


def _cache_activity(settings: Settings, outside: _Outside, fleet: _Fleet, tracing: Tracing) -> CacheActivity | None:
    """Return the observer of the use of caches, or None if it is disabled or if no admin key can read the results."""
    if not settings.admin.cache_activity or not settings.admin.keys:
        return None
    block_bytes = settings.index.block_bytes
    words = PrefixWords(tracing.keeps_content, block_bytes=block_bytes) if settings.admin.prefix_words else None
    return CacheActivity(
        *(fleet.models, fleet.knowledge.event_subscriptions, fleet.knowledge.index),
        block_bytes=block_bytes,
        clock=outside.clock,
        wall_clock=outside.wall_clock,
        words=words,
    )


def _cache_views(settings: Settings, parts: _Parts) -> CacheViews | None:
    activity, knowledge, clock = parts.cache_activity, parts.fleet.knowledge, parts.outside.clock
    if activity is None:
        return None
    maps = CacheMaps(activity, knowledge.index, knowledge.confirmed, settings.index.block_bytes, clock)
    return CacheViews(maps, IndexTruths(activity.history, knowledge.event_subscriptions))


def _index(settings: Settings) -> RadixTree:
    room_bytes = settings.index.default_worker_blocks * settings.index.default_block_size * BYTES_PER_TOKEN
    return RadixTree(max_bytes=settings.index.max_bytes, default_capacity=int(room_bytes / settings.index.block_bytes))


def _knowledge(settings: Settings, tokenizers: Tokenizers, outside: _Outside) -> Knowledge:
    events, process = settings.kv_events, outside.process
    sharing = sharing_of(settings, None if process is None else process.hub)
    key = secrets.token_bytes(KEY_BYTES) if sharing is None else sharing.key
    token_hasher = TokenHasher(derived(key, "tokens"))
    residency = Residency(token_hasher, max_bytes=events.max_bytes)
    confirmed = Confirmed(residency, lifetime_s=settings.advanced.kv_prediction_s)
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
        event_subscriptions=EventSubscriptions(confirmed, intake),
        sharing=sharing,
    )


def _canary(fleet: _Fleet, live: LiveSettings, clock: Clock) -> Canary:
    return Canary(
        lambda: [model.fallbacks for model in fleet.models],
        rules=lambda: canary_rules(live.configured),
        catalog=lambda key: fleet.fallback_factory.catalog(live.configured, key),
        clock=clock,
    )


def _start_checks(settings: Settings, fleet: _Fleet, outside: _Outside) -> StartChecks | None:
    """Return the start checks of workers, or None if the settings disable them."""
    if not settings.kv_events.check:
        return None
    knowledge = fleet.knowledge
    check = CacheCheck(outside.client, knowledge.confirmed, clock=outside.clock, nonce=partial(secrets.token_hex, 8))
    return StartChecks(fleet.models, knowledge.event_subscriptions, check, knowledge.tokenizers)


def _replicas(models: Models, knowledge: Knowledge, activity: CacheActivity | None, clock: Clock) -> Replicas:
    def rehash(key: bytes) -> None:
        knowledge.rehash(key, [model.fleet for model in models])
        if activity is not None:
            activity.forget_prefixes()

    try:
        return Replicas(knowledge.sharing, models, on_key=rehash, clock=clock)
    except ValueError as fault:
        raise SettingsError([f"{fault}."]) from None
