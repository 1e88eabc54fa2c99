"""Admin keys that are limited to one team: what they see of it, and that they see nothing of other teams."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi.routing import APIRoute

from gateway.api.admin_access import TEAM_PATHS, AdminKey
from gateway.api.admin_v1 import keys
from gateway.api.admin_v1.parts import AdminGateway
from gateway.models.registry import Models
from tests.gateway.api.admin_v1.administration import KEYS, Administration, administration
from tests.gateway.examples import a_draining

LIMITED = AdminKey("bv", "viewer", "s3cret-of-bv", "blue")
TEAM_OWNER = AdminKey("bo", "owner", "s3cret-of-bo", "blue")
MANAGED = {
    ("POST", "/admin/v1/keys"),
    ("POST", "/admin/v1/keys/{key_id}/rotate"),
    ("DELETE", "/admin/v1/keys/{key_id}"),
}
"""All that an owner of a team can change."""


@pytest.fixture
async def admin() -> AsyncIterator[Administration]:
    models = Models()
    async with administration(
        keys=(*KEYS, LIMITED, TEAM_OWNER), gateway=AdminGateway(models, tuple, draining=a_draining(models))
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


async def test_an_owner_of_a_team_changes_nothing_but_keys(admin: Administration) -> None:
    """Every route of the admin API, also one that does not exist yet."""
    routes = [route for route in admin.api.state.routes if isinstance(route, APIRoute)]
    asked = {(method, route.path) for route in routes for method in route.methods or () if route.include_in_schema}
    refused = {each for each in asked if each not in MANAGED and not (each[0] == "GET" and each[1] in TEAM_PATHS)}

    assert MANAGED < asked
    assert len(refused) > 10
    for method, path in sorted(refused):
        for name in ("blue", "blue-1", "green"):
            concrete = re.sub(r"\{[^}]+\}", name, path).removeprefix("/admin/v1")
            answer = await admin.ask(method, concrete, {}, who="bo")
            assert (403, "limited_to_team") == (answer.status_code, answer.json()["error"]["code"]), (method, path)
    assert ["create"] * 4 == [entry["action"] for entry in await admin.audited()]


async def test_an_owner_of_a_team_reads_what_a_viewer_of_the_team_reads(admin: Administration) -> None:
    for path in ("/teams", "/teams/blue", "/keys", "/keys/blue-1", "/usage?team=blue", "/usage/records"):
        assert await get(admin, path) == await admin.get(path, who="bo")
    for path, status in (("/teams/green", 403), ("/keys?team=green", 403), ("/keys/green-1", 404)):
        assert status == (await admin.ask("GET", path, who="bo")).status_code


async def test_an_owner_of_a_team_creates_rotates_and_deletes_its_keys(admin: Administration) -> None:
    created = await admin.ask("POST", "/keys", {"team": "blue", "project": "x"}, who="bo")
    key = created.json()
    rotated = await admin.ask("POST", f"/keys/{key['id']}/rotate", {}, who="bo")
    deleted = await admin.ask("DELETE", f"/keys/{key['id']}", who="bo")

    assert [201, 200, 204] == [each.status_code for each in (created, rotated, deleted)]
    assert key["secret"] != rotated.json()["secret"]
    assert [("bo", "owner", action, "blue", key["id"]) for action in ("delete", "rotate", "create")] == [
        (each["who"], each["role"], each["action"], each["team"], each["id"]) for each in (await admin.audited())[:3]
    ]


async def test_keys_of_other_teams_do_not_exist_for_an_owner_of_a_team(admin: Administration) -> None:
    before = await admin.get("/keys")
    for method, path in (("DELETE", "/keys/{}"), ("POST", "/keys/{}/rotate")):
        answers = [await admin.ask(method, path.format(name), {}, who="bo") for name in ("green-1", "nowhere")]
        assert [404, 404] == [each.status_code for each in answers]
        assert (
            answers[0].json()["error"]["message"].replace("green-1", "nowhere")
            == (answers[1].json()["error"]["message"])
        )
    answers = [await admin.ask("POST", "/keys", {"team": team}, who="bo") for team in ("green", "nowhere")]

    assert [(403, "other_team")] * 2 == [(each.status_code, each.json()["error"]["code"]) for each in answers]
    assert before == await admin.get("/keys")


@pytest.mark.parametrize("name", ["blue-1", "green-1", "new"])
async def test_an_owner_of_a_team_does_not_choose_ids(admin: Administration, name: str) -> None:
    """Otherwise the answer would show which ids other teams have."""
    answer = await admin.ask("POST", "/keys", {"team": "blue", "id": name}, who="bo")

    assert (400, "id") == (answer.status_code, answer.json()["error"]["param"])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"priority": "high"}, "priority"),
        ({"weight": 2}, "weight"),
        ({"fallback": True}, "fallback"),
        ({"models": ["a", "b"]}, "models"),
        ({"limits": {"tokens_per_minute": 101}}, "limits.tokens_per_minute"),
        ({"limit_template": "trial"}, "limits.usd_per_month"),
        ({"models": ["a", "group:chat"]}, "models"),
    ],
)
async def test_a_key_gets_no_more_than_its_team_has(admin: Administration, fields: dict[str, Any], param: str) -> None:
    bounds = {"fallback": False, "models": ["a"], "limits": {"tokens_per_minute": 100, "usd_per_month": 1}}
    assert 200 == (await admin.ask("PATCH", "/teams/blue", bounds)).status_code
    refused = await admin.ask("POST", "/keys", {"team": "blue", **fields}, who="bo")

    assert (403, "beyond_team", param) == (
        refused.status_code,
        *(refused.json()["error"][name] for name in ("code", "param")),
    )
    assert 201 == (await admin.ask("POST", "/keys", {"team": "blue", **fields}, who="ow")).status_code


async def test_the_number_of_keys_that_owners_of_a_team_create_is_bounded(
    admin: Administration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "MAX_DELEGATED_KEYS", 2)
    statuses = [(await admin.ask("POST", "/keys", {"team": "blue"}, who=who)).status_code for who in ("bo", "bo", "ow")]

    assert [201, 403, 201] == statuses


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
