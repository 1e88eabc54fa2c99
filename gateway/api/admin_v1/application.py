"""Separate ASGI application for `/admin/v1`, which runs in the gateway, on a separate port, or inside a command."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from importlib.metadata import version
from zoneinfo import ZoneInfo

from fastapi import APIRouter, FastAPI

from gateway.api.admin_access import AdminAccess, AdminKey
from gateway.api.admin_v1 import (
    added_workers,
    audit,
    batches,
    cache_map,
    diagnosis,
    explain,
    index_truth,
    keys,
    models,
    overview,
    raises,
    reload,
    requests,
    revocations,
    routes,
    team_credits,
    team_limits,
    teams,
    usage,
    what_if,
    workers,
)
from gateway.api.admin_v1.answers import Answers
from gateway.api.admin_v1.claims import Claims
from gateway.api.admin_v1.description import describe
from gateway.api.admin_v1.entities import Entities
from gateway.api.admin_v1.error_handlers import answer_errors
from gateway.api.admin_v1.parts import AdminGateway, Parts
from gateway.api.docs_page import docs_router
from gateway.api.refused_logins import RefusedLogins
from gateway.tenancy.identity.admin_person import AdminTokenCheck
from gateway.tenancy.ledger.usage_store import UsageStore
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.secret import Digester
from gateway.tenancy.teams.team_store import TeamStore
from gateway.workers.added_workers import KnownWorkers

PREFIX = "/admin/v1"
"""Path prefix of the admin API. The application expects full paths, so it is not mounted under the prefix."""


def admin_api(
    admin_keys: Sequence[AdminKey],
    *,
    admin_tokens: AdminTokenCheck | None = None,
    store: TeamStore,
    directory: Directory,
    digester: Callable[[], Awaitable[Digester]],
    usage_store: UsageStore,
    claims: Claims,
    wall_clock: Callable[[], float],
    time_zone: str = "UTC",
    gateway: AdminGateway | None = None,
    refused_logins: RefusedLogins | None = None,
    guardrails: Callable[[], Collection[str]] = frozenset,
    known_workers: Callable[[], KnownWorkers] | None = None,
) -> FastAPI:
    """Return the admin application. It has no lifespan, and the caller closes the objects that are passed to it.

    *admin_keys* grant access, and so do tokens that *admin_tokens* accepts. *digester* returns the digester for new
    secrets. *time_zone* determines the days of the ledger. Without *gateway* there are no routes for draining, models
    and reloading. *refused_logins* counts requests without a valid admin key; they are not counted if it is None.
    *guardrails* returns the names that teams may use. *known_workers* returns the listed and discovered workers;
    without it there are no routes for workers.
    """
    api = FastAPI(
        title="Warmgate administration",
        version=version("warmgate"),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    api.state.admin_access = AdminAccess(admin_keys, admin_tokens)
    api.state.refused_logins = refused_logins
    api.state.parts = Parts(
        Entities(store, directory),
        store,
        usage_store,
        claims,
        Answers(wall_clock=wall_clock),
        digester,
        wall_clock,
        ZoneInfo(time_zone),
        gateway,
        guardrails,
        known_workers,
    )
    docs = docs_router(title="Warmgate admin API", openapi_url=f"{PREFIX}/openapi.json", prefix=PREFIX)
    routers = [teams.router, keys.router, raises.router, usage.router, audit.router, docs]
    if known_workers is not None:
        routers.append(added_workers.router)
    if gateway is not None:
        routers += _of_gateway(gateway)
    for router in routers:
        api.include_router(router)
    answer_errors(api, (route for router in routers for route in router.routes))
    describe(api)
    return api


def _of_gateway(gateway: AdminGateway) -> list[APIRouter]:
    """Return the routes that only a running gateway has."""
    routers = [workers.router, models.router, reload.router, team_credits.router, team_limits.router]
    routers += [diagnosis.router, overview.router, requests.router, routes.router]
    if gateway.issuers:
        routers.append(revocations.router)
    if gateway.explainer is not None:
        routers.append(explain.router)
    if gateway.caches is not None:
        routers += [cache_map.router, index_truth.router]
    if gateway.batches is not None:
        routers.append(batches.router)
    if gateway.what_if is not None:
        routers.append(what_if.router)
    return routers
