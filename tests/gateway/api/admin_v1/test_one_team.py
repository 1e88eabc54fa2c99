"""Admin keys that are limited to one team: what they see of it, and that they see nothing of other teams."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi.routing import APIRoute

from gateway.api.admin_access import TEAM_PATHS, AdminKey
from gateway.api.admin_v1.parts import AdminGateway
from gateway.models.registry import Models
from tests.gateway.api.admin_v1.administration import KEYS, Administration, administration
from tests.gateway.examples import a_draining

LIMITED = AdminKey("bv", "viewer", "s3cret-of-bv", "blue")


@pytest.fixture
async def admin() -> AsyncIterator[Administration]:
    models = Models()
    async with administration(
        keys=(*KEYS, LIMITED), gateway=AdminGateway(models, tuple, draining=a_draining(models))
    ) as made:
        for team in ("blue", "green"):
            await made.make("teams", name=team)
            await made.make("keys", team=team, id=f"{team}-1")
        yield made


async def get(admin: Administration, path: str) -> Any:
    return await admin.get(path, who="bv")


async def test_lists_have_only_the_team(admin: Administration) -> None:
    assert ["blue"] == [each["name"] for each in (await get(admin, "/teams"))["data"]]
    assert ["blue-1"] == [each["id"] for each in (await get(admin, "/keys"))["data"]]


async def test_the_team_is_shown(admin: Administration) -> None:
    assert "blue" == (await get(admin, "/teams/blue"))["name"]
    assert [] == (await get(admin, "/teams/blue/limits"))["data"]
    assert "blue-1" == (await get(admin, "/keys/blue-1"))["id"]
    for path in (
        "/usage?team=blue",
        "/usage?group_by=team",
        "/usage/records",
        "/usage/users?team=blue",
        "/usage?key=blue-1",
    ):
        assert "data" in await get(admin, path)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/teams/green", 403), ("/teams/nowhere", 403), ("/teams/green/limits", 403), ("/keys?team=green", 403)),
        *(("/keys/green-1", 404), ("/keys/nowhere", 404), ("/usage?team=green", 403), ("/usage?key=green-1", 404)),
        *(("/usage?key=nowhere", 404), ("/usage/users?team=green", 403), ("/usage/records?team=green", 403)),
        *(("/usage/export?team=green", 403), ("/requests?team=green", 403)),
    ],
)
async def test_other_teams_are_hidden(admin: Administration, path: str, status: int) -> None:
    """Whether a key of another team exists is hidden, too."""
    assert status == (await admin.ask("GET", path, who="bv")).status_code


async def test_every_other_route_rejects_the_key(admin: Administration) -> None:
    """Also routes that do not exist yet, unless they are added to the list."""
    routes = [route for route in admin.api.state.routes if isinstance(route, APIRoute)]
    asked = [(method, route.path) for route in routes for method in route.methods or () if route.include_in_schema]
    others = [(method, path) for method, path in asked if path not in TEAM_PATHS]

    assert len(others) > 10
    for method, path in others:
        concrete = re.sub(r"\{[^}]+\}", "blue", path).removeprefix("/admin/v1")
        answer = await admin.ask(method, concrete, {}, who="bv")
        assert (403, "limited_to_team") == (answer.status_code, answer.json()["error"]["code"]), (method, path)


async def test_the_key_changes_nothing(admin: Administration) -> None:
    for method, path in (("POST", "/teams"), ("PATCH", "/teams/blue"), ("DELETE", "/keys/blue-1"), ("POST", "/keys")):
        assert 403 == (await admin.ask(method, path, {}, who="bv")).status_code


def test_the_listed_paths_exist() -> None:
    assert all(path.startswith("/admin/v1/") for path in TEAM_PATHS)
