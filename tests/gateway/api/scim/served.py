"""The SCIM server over a real SQLite store in memory, with the tokens of two issuers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from gateway.api.scim.application import scim_api
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.sqlite_teams import SqliteTeamStore
from tests.gateway.examples import Clock

OKTA, ENTRA = "the-scim-token-of-okta-00", "the-scim-token-of-entra-0"
NOW = 1_795_248_000.0
"""2026-11-21T08:00:00Z."""
USER_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


@dataclass
class Served:
    store: SqliteTeamStore
    directory: Directory
    clock: Clock
    http: httpx.AsyncClient

    async def ask(self, method: str, path: str, body: Any = None, *, token: str | None = OKTA) -> httpx.Response:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        if body is None:
            return await self.http.request(method, f"/scim/v2{path}", headers=headers)
        headers["content-type"] = "application/scim+json"
        return await self.http.request(method, f"/scim/v2{path}", headers=headers, json=body)

    async def get(self, path: str) -> Any:
        response = await self.ask("GET", path)
        assert 200 == response.status_code, response.text
        return response.json()

    async def add_user(self, name: str, **more: Any) -> str:
        response = await self.ask("POST", "/Users", {"schemas": [USER_SCHEMA], "userName": name, **more})
        assert 201 == response.status_code, response.text
        identifier: str = response.json()["id"]
        return identifier

    async def add_group(self, name: str, *members: str) -> str:
        said = [{"value": each} for each in members]
        body = {"schemas": [GROUP_SCHEMA], "displayName": name, "members": said}
        response = await self.ask("POST", "/Groups", body)
        assert 201 == response.status_code, response.text
        identifier: str = response.json()["id"]
        return identifier

    async def patch(self, path: str, *operations: Any) -> httpx.Response:
        return await self.ask("PATCH", path, {"schemas": [PATCH_SCHEMA], "Operations": list(operations)})

    async def members(self, group: str) -> set[str]:
        return {each["value"] for each in (await self.get(f"/Groups/{group}"))["members"]}


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    file = SqliteFile(Path(":memory:"))
    store, directory, clock = SqliteTeamStore(file), Directory(), Clock(NOW)
    await store.initialize(None)
    api = scim_api({OKTA: "okta", ENTRA: "entra"}, store=store, directory=directory, wall_clock=clock)
    transport = httpx.ASGITransport(api, raise_app_exceptions=False)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway.example.com") as http:
            yield Served(store, directory, clock, http)
    finally:
        await file.aclose()
