"""The admin application over real SQLite stores in memory, with admin keys of every role and a clock that is set."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from gateway.api.admin_access import AdminKey
from gateway.api.admin_v1.application import admin_api
from gateway.api.admin_v1.claims import Claims
from gateway.api.admin_v1.parts import AdminGateway
from gateway.api.admin_v1.sqlite_claims import SqliteClaims
from gateway.api.refused_logins import RefusedLogins
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger import sqlite_book, sqlite_usage
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.sqlite_usage import SqliteUsage
from gateway.tenancy.ledger.usage_store import UsageStore
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.named_rules import NamedRules
from gateway.tenancy.teams.secret import Digester
from gateway.tenancy.teams.sqlite_teams import SqliteTeamStore
from gateway.tenancy.teams.team_store import TeamStore
from gateway.workers.added_workers import KnownWorkers
from gateway.workers.worker_spec import ModelWorkers
from tests.gateway.examples import Clock

NOW = 1_795_248_000.0
"""2026-11-21T08:00:00Z."""

RULES = NamedRules(
    {"standard": Limits(requests_per_minute=600), "trial": Limits(requests_per_minute=6, usd_per_month=5.0)},
    {"chat": ("tiny", "gpt-4*")},
)
"""Limit templates and model groups in the settings."""

KEYS = (
    AdminKey("vi", "viewer", "s3cret-of-vi"),
    AdminKey("op", "operator", "s3cret-of-op"),
    AdminKey("ow", "owner", "s3cret-of-ow"),
)


@dataclass
class Administration:
    api: FastAPI
    file: SqliteFile
    store: TeamStore
    directory: Directory
    digester: Digester
    clock: Clock
    refused_logins: RefusedLogins

    async def ask(self, method: str, path: str, body: Any = None, *, who: str = "ow", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client(who) as client:
            if body is None:
                return await client.request(method, f"/admin/v1{path}", headers=named)
            return await client.request(method, f"/admin/v1{path}", headers=named, json=body)

    def client(self, who: str | None = "ow") -> httpx.AsyncClient:
        """None: without a key. An error that no one foresaw comes out as its answer, 500."""
        headers = {} if who is None else {"authorization": f"Bearer s3cret-of-{who}"}
        transport = httpx.ASGITransport(self.api, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)

    async def get(self, path: str, *, who: str = "vi") -> Any:
        """The answer, which is a good one."""
        response = await self.ask("GET", path, who=who)
        assert 200 == response.status_code, response.text
        return response.json()

    async def make(self, kind: str, **body: Any) -> Any:
        """A team or a key, which is new."""
        response = await self.ask("POST", f"/{kind}", body)
        assert 201 == response.status_code, response.text
        return response.json()

    async def book(self, *entries: Entry) -> None:
        await self.file.run(lambda connection: sqlite_book.book(connection, entries))

    async def audited(self) -> list[Any]:
        """The latest first."""
        entries: list[Any] = (await self.get("/audit"))["data"]
        return entries


@asynccontextmanager
async def administration(
    *,
    keys: tuple[AdminKey, ...] = KEYS,
    declared: Declared | None = None,
    gateway: AdminGateway | None = None,
    listed: Sequence[ModelWorkers] = (),
    guardrails: tuple[str, ...] = ("pii",),
    time_zone: str = "UTC",
    stores: tuple[TeamStore, UsageStore, Claims] | None = None,
) -> AsyncIterator[Administration]:
    file = SqliteFile(Path(":memory:"))
    try:
        await file.run(sqlite_usage.create)
        clock = Clock(NOW)
        embedded = SqliteTeamStore(file), SqliteUsage(file), SqliteClaims(file, wall_clock=clock)
        store, usage_store, claims = stores or embedded
        digester = Digester(await store.initialize(None))
        directory = Directory()
        directory.declare(declared or Declared(rules=RULES))

        async def digesting() -> Digester:
            return digester

        if gateway is not None:
            directory.follow_routes(gateway.models.use_weights)
        refused = RefusedLogins(store, wall_clock=clock, trusted_proxies=["10.0.0.0/8"])
        api = admin_api(
            keys,
            store=store,
            directory=directory,
            digester=digesting,
            usage_store=usage_store,
            claims=claims,
            wall_clock=clock,
            time_zone=time_zone,
            gateway=gateway,
            refused_logins=refused,
            guardrails=lambda: guardrails,
            known_workers=None if gateway is None else lambda: KnownWorkers(listed),
        )
        yield Administration(api, file, store, directory, digester, clock, refused)
    finally:
        await file.aclose()


def fault(response: httpx.Response) -> tuple[int, str | None, str | None]:
    """Status, code and param of an error in OpenAI's shape."""
    error = response.json()["error"]
    assert {"message", "type", "param", "code"} == error.keys()
    return response.status_code, error["code"], error["param"]


def message(response: httpx.Response) -> str:
    text: str = response.json()["error"]["message"]
    return text
