"""Entity tags of teams and keys."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.gateway.api.admin_v1.administration import Administration, administration, fault


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


async def test_any_tag_is_of_what_is_there(blue: Administration) -> None:
    there = await blue.ask("PUT", "/teams/blue", {}, if_match="*")
    not_there = await blue.ask("PUT", "/teams/red", {}, if_match="*")

    assert (200, 412) == (there.status_code, not_there.status_code)


async def test_what_is_made_has_its_tag(blue: Administration) -> None:
    team = await blue.ask("POST", "/teams", {"name": "red"})
    key = await blue.ask("POST", "/keys", {"team": "red", "id": "cd"})

    assert team.headers["etag"] == await tag(blue, "/teams/red")
    assert key.headers["etag"] == await tag(blue, "/keys/cd")
