"""Entity tags of teams and keys."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gateway.api.admin_v1.sqlite_claims import SqliteClaims
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger import sqlite_usage
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.ledger.sqlite_usage import SqliteUsage
from gateway.tenancy.teams.sqlite_teams import SqliteTeamStore
from gateway.tenancy.teams.team_store import Change, PutKey, PutTeam, Snapshot
from tests.gateway.api.admin_v1.administration import Administration, administration, fault
from tests.gateway.examples import Clock


@pytest.fixture
async def blue() -> AsyncIterator[Administration]:
    """There is a team blue with a key ci."""
    async with administration() as admin:
        await admin.make("teams", name="blue")
        await admin.make("keys", team="blue", id="ci")
        yield admin


async def tag(admin: Administration, path: str) -> str:
    return (await admin.ask("GET", path)).headers["etag"]


CHANGES = [
    ("PATCH", "/teams/blue", {"weight": 2}),
    ("PUT", "/teams/blue", {"weight": 2}),
    ("PATCH", "/keys/ci", {"weight": 2}),
    ("POST", "/keys/ci/rotate", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_a_change_of_what_was_read_is_made(
    blue: Administration, method: str, path: str, body: dict[str, Any]
) -> None:
    """Its answer has the next tag, which is that of the next reading."""
    read = path.removesuffix("/rotate")
    before = await tag(blue, read)
    changed = await blue.ask(method, path, body, if_match=f'"x", {before}')

    assert 200 == changed.status_code
    assert changed.headers["etag"] == await tag(blue, read) != before


@pytest.mark.parametrize(("method", "path", "body"), [*CHANGES, ("DELETE", "/teams/blue?cascade=true", None)])
async def test_a_change_of_something_else_is_not(blue: Administration, method: str, path: str, body: Any) -> None:
    """Somebody has changed it in between."""
    read = path.removesuffix("/rotate").partition("?")[0]
    before = await tag(blue, read)
    await blue.ask("PATCH", read, {"weight": 3})
    meanwhile = await blue.audited()
    response = await blue.ask(method, path, body, if_match=before)

    assert (412, "precondition_failed", "if-match") == fault(response)
    assert meanwhile == await blue.audited()


async def test_a_key_is_deleted_as_it_was_read(blue: Administration) -> None:
    before = await tag(blue, "/keys/ci")
    await blue.ask("POST", "/keys/ci/rotate")

    assert 412 == (await blue.ask("DELETE", "/keys/ci", if_match=before)).status_code
    assert 204 == (await blue.ask("DELETE", "/keys/ci", if_match=await tag(blue, "/keys/ci"))).status_code


class Overtaken(SqliteTeamStore):
    """Somebody else is faster, once: *meanwhile* is written just before the next change."""

    meanwhile: Change | None = None

    async def write(self, change: Change, audit: AuditEntry) -> Snapshot:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await super().write(meanwhile, audit)
        return await super().write(change, audit)


@pytest.mark.parametrize("path", ["/keys/ci", "/teams/blue?cascade=true"])
@pytest.mark.parametrize(("tags", "status"), [("read", 412), ("*", 204), (None, 204)])
async def test_nothing_is_deleted_that_was_changed_after_it_was_compared(
    path: str, tags: str | None, status: int
) -> None:
    """Between the look at the tag and the deletion."""
    file = SqliteFile(Path(":memory:"))
    await file.run(sqlite_usage.create)
    store = Overtaken(file)
    try:
        async with administration(stores=(store, SqliteUsage(file), SqliteClaims(file, wall_clock=Clock()))) as admin:
            await admin.make("teams", name="blue")
            await admin.make("keys", team="blue", id="ci")
            headers = {} if tags is None else {"if_match": await tag(admin, path) if tags == "read" else tags}
            seen = await store.load()
            team, key = seen.teams["blue"], seen.keys["ci"]
            heavy_key, heavy_team = structs.replace(key, weight=3.0), structs.replace(team, weight=3.0)
            store.meanwhile = PutKey(heavy_key, key) if path == "/keys/ci" else PutTeam(heavy_team, team)
            deleted = await admin.ask("DELETE", path, None, **headers)
            left = await store.load()
    finally:
        await file.aclose()

    assert status == deleted.status_code
    assert (status == 412) == ("ci" in left.keys)


async def test_any_tag_is_of_what_is_there(blue: Administration) -> None:
    there = await blue.ask("PUT", "/teams/blue", {}, if_match="*")
    not_there = await blue.ask("PUT", "/teams/red", {}, if_match="*")

    assert (200, 412) == (there.status_code, not_there.status_code)


async def test_what_is_made_has_its_tag(blue: Administration) -> None:
    team = await blue.ask("POST", "/teams", {"name": "red"})
    key = await blue.ask("POST", "/keys", {"team": "red", "id": "cd"})

    assert team.headers["etag"] == await tag(blue, "/teams/red")
    assert key.headers["etag"] == await tag(blue, "/keys/cd")
