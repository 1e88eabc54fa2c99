"""Local version of `/admin/v1` that works on the configured store in the command's process, without a gateway.

A running gateway that uses the same store applies the changes within a second.
"""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

from gateway.api.admin_access import AdminKey
from gateway.api.admin_v1.application import admin_api
from gateway.app.mapping.tenancy import declared_in, store_rules
from gateway.app.mapping.workers import model_workers
from gateway.app.stores import Stores, stores_of
from gateway.cli.commands.output import CommandFailed
from gateway.protocol.errors import GatewayError
from gateway.settings import Settings
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.secret import Digester
from gateway.workers.added_workers import KnownWorkers

WHO = "local"
"""Name in the audit log for changes made by an operator with direct access to the store."""
BASE_URL = "http://local"


@asynccontextmanager
async def local_admin(settings: Settings, *, wall_clock: Callable[[], float]) -> AsyncIterator[httpx.AsyncClient]:
    """Yield an HTTP client of a local admin application with the owner role.

    *wall_clock* returns seconds since 1970.

    Raises:
        CommandFailed: if *settings* name no store, or the store cannot be reached.
        SettingsError: if two declared keys have the same secret.
    """
    if settings.store.url is None:
        text = "store.url is not set, so teams and keys exist only in a running gateway."
        raise CommandFailed(f"{text} Set the gateway's address with --url or WARMGATE_ADMIN_URL.", code=2)
    stores = stores_of(store_rules(settings), wall_clock=wall_clock)
    try:
        async with await _client(settings, stores, wall_clock) as client:
            yield client
    finally:
        await stores.aclose()


async def _client(settings: Settings, stores: Stores, wall_clock: Callable[[], float]) -> httpx.AsyncClient:
    try:
        digester = Digester(await stores.identify())
    except GatewayError as fault:
        raise CommandFailed(f"The store cannot be used: {fault.message}.") from None
    directory = Directory(is_followed=True)
    directory.declare(declared_in(settings, digester))

    async def same() -> Digester:
        return digester

    owner = AdminKey(WHO, "owner", secrets.token_urlsafe())
    application = admin_api(
        (owner,),
        store=stores.teams,
        directory=directory,
        digester=same,
        usage_store=stores.usage,
        claims=stores.claims,
        wall_clock=wall_clock,
        time_zone=settings.quota.time_zone,
        guardrails=lambda: {each.name for each in settings.guardrails},
        known_workers=lambda: KnownWorkers(model_workers(settings.models)),
    )
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(application), base_url=BASE_URL, headers={"x-api-key": owner.secret}
    )
