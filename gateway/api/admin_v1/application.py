"""`/admin/v1` as an ASGI application of its own: beside the gateway, on a port of its own, or inside a command."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from importlib.metadata import version
from zoneinfo import ZoneInfo

from fastapi import FastAPI

from gateway.added_workers import KnownWorkers
from gateway.api.admin_v1 import added_workers, audit, keys, models, reload, team_credits, teams, usage, workers
from gateway.api.admin_v1.access import AdminAccess, AdminKey
from gateway.api.admin_v1.answers import Answers
from gateway.api.admin_v1.claims import Claims
from gateway.api.admin_v1.description import describe
from gateway.api.admin_v1.entities import Entities
from gateway.api.admin_v1.parts import AdminGateway, Parts
from gateway.api.admin_v1.told import tell_errors
from gateway.api.refused_logins import RefusedLogins
from gateway.ledger.usage_store import UsageStore
from gateway.teams.directory import Directory
from gateway.teams.secret import Digester
from gateway.teams.team_store import TeamStore

PREFIX = "/admin/v1"
"""Of all its paths, which the application expects as they came: it is not mounted below it."""


def admin_api(
    admin_keys: Sequence[AdminKey],
    *,
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
    """The application, which has no lifespan: whoever made its parts closes them.

    *admin_keys* may use it; none: nobody. *digester* is asked when a secret is made. *time_zone* is that of the
    ledger's days. Without a *gateway* there are no routes for draining, models and reloading. *refused_logins* counts
    requests without one of the keys; None: nobody does. *guardrails* are the names that teams may name. *known_workers*
    are those beside which others may be added; None: those that the settings of the *gateway* list.
    """
    api = FastAPI(
        title="Warmgate administration",
        version=version("warmgate"),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    if known_workers is None and gateway is not None:
        known_workers = _listed_by(gateway)
    api.state.access = AdminAccess(admin_keys)
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
    routers = [teams.router, keys.router, usage.router, audit.router]
    if known_workers is not None:
        routers.append(added_workers.router)
    if gateway is not None:
        routers += [workers.router, models.router, reload.router, team_credits.router]
    for router in routers:
        api.include_router(router)
    tell_errors(api, (route for router in routers for route in router.routes))
    describe(api)
    return api


def _listed_by(gateway: AdminGateway) -> Callable[[], KnownWorkers]:
    return lambda: KnownWorkers(gateway.settings())
