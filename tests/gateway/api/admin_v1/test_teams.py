"""/admin/v1/teams."""

import asyncio
from typing import Any

import pytest

from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import PutTeam
from tests.gateway.api.admin_v1.administration import Administration, administration, fault, message

BLUE = {
    "object": "team",
    "name": "blue",
    "weight": 1.0,
    "priority": "normal",
    "models": None,
    "strategies": None,
    "fallback": True,
    "ttft_s": None,
    "blocked": False,
    "isolated_cache": False,
    "projects": [],
    "guardrails": [],
    "limits": {},
    "limit_template": None,
    "model_limits": {},
    "user_limits": {},
    "session_limits": {},
    "project_limits": {},
    "declared": False,
}
FULL: dict[str, Any] = {
    "weight": 2.5,
    "priority": "high",
    "models": ["tiny", "gpt-4*", "group:chat"],
    "strategies": ["kv_aware"],
    "fallback": False,
    "ttft_s": 0.5,
    "blocked": True,
    "isolated_cache": True,
    "projects": ["search"],
    "guardrails": ["pii"],
    "limits": {"requests_per_minute": 600, "usd_per_month": 100.0},
    "limit_template": "standard",
    "model_limits": {"tiny": {"concurrent": 3}},
    "user_limits": {"tokens_per_day": 200},
    "session_limits": {"concurrent": 4},
    "project_limits": {"search": {"usd_per_month": 40.0}},
}


async def stored(admin: Administration) -> dict[str, Team]:
    return dict((await admin.store.load()).teams)


async def test_a_team_is_made_with_defaults(admin: Administration) -> None:
    assert BLUE == await admin.make("teams", name="blue")
    assert BLUE == await admin.get("/teams/blue")
    assert {"blue": Team(name="blue")} == await stored(admin)


async def test_a_team_is_made_with_everything(admin: Administration) -> None:
    """Field by field as it stands in settings."""
    assert BLUE | FULL == await admin.make("teams", name="blue", **FULL)
    assert BLUE | FULL == await admin.get("/teams/blue")
    assert Limits(requests_per_minute=600, usd_per_month=100.0) == (await stored(admin))["blue"].limits


async def test_a_name_is_given_once(admin: Administration) -> None:
    await admin.make("teams", name="blue", weight=2)
    response = await admin.ask("POST", "/teams", {"name": "blue"})

    assert (409, "conflict", "name") == fault(response)
    assert 2.0 == (await admin.get("/teams/blue"))["weight"]


async def test_a_repeated_request_gets_the_same_team(admin: Administration) -> None:
    """Its first answer may have been lost on the way."""
    body = {"name": "blue", "weight": 2.0}
    first = await admin.ask("POST", "/teams", body, idempotency_key="k-1")
    second = await admin.ask("POST", "/teams", body, idempotency_key="k-1")

    assert (201, 201) == (first.status_code, second.status_code)
    assert first.json() == second.json()
    assert 1 == len(await admin.audited())


async def test_a_header_used_again_for_something_else_is_refused(admin: Administration) -> None:
    await admin.ask("POST", "/teams", {"name": "blue"}, idempotency_key="k-1")
    response = await admin.ask("POST", "/teams", {"name": "red"}, idempotency_key="k-1")

    assert (409, "conflict", "idempotency-key") == fault(response)
    assert ["blue"] == list(await stored(admin))


async def test_the_header_does_not_hand_out_the_team_of_another(admin: Administration) -> None:
    await admin.make("teams", name="blue")
    for _ in range(2):
        response = await admin.ask("POST", "/teams", {"name": "blue"}, idempotency_key="k-1")

        assert (409, "conflict", None) == fault(response)


async def test_teams_are_listed_by_name_and_in_pages(admin: Administration) -> None:
    for name in ("red", "blue", "green"):
        await admin.make("teams", name=name)
    first = await admin.get("/teams?limit=2")
    second = await admin.get(f"/teams?limit=2&after={first['next']}")

    assert (["blue", "green"], True, "green") == (
        [team["name"] for team in first["data"]],
        first["has_more"],
        first["next"],
    )
    assert (["red"], False, None) == ([team["name"] for team in second["data"]], second["has_more"], second["next"])


async def test_a_put_makes_a_team_or_replaces_all_of_it(admin: Administration) -> None:
    made = await admin.ask("PUT", "/teams/blue", FULL)
    same = await admin.ask("PUT", "/teams/blue", {"name": "blue", **FULL})
    plain = await admin.ask("PUT", "/teams/blue", {})

    assert (201, 200, 200) == (made.status_code, same.status_code, plain.status_code)
    assert BLUE | FULL == made.json() == same.json()
    assert BLUE == plain.json() == await admin.get("/teams/blue")


async def test_what_changes_nothing_is_not_logged(admin: Administration) -> None:
    await admin.ask("PUT", "/teams/blue", FULL)
    await admin.ask("PUT", "/teams/blue", FULL)
    await admin.ask("PATCH", "/teams/blue", {"weight": 2.5})

    assert ["create"] == [entry["action"] for entry in await admin.audited()]


async def test_a_put_has_one_name(admin: Administration) -> None:
    assert (400, None, "name") == fault(await admin.ask("PUT", "/teams/blue", {"name": "red"}))
    assert (400, None, "name") == fault(await admin.ask("PUT", "/teams/-", {}))


async def test_a_patch_changes_what_it_names(admin: Administration) -> None:
    await admin.make("teams", name="blue", **FULL)
    response = await admin.ask(
        "PATCH",
        "/teams/blue",
        {"weight": None, "limits": {"requests_per_minute": None, "concurrent": 5}, "model_limits": {"tiny": None}},
    )
    changed = {"weight": 1.0, "limits": {"usd_per_month": 100.0, "concurrent": 5}, "model_limits": {}}

    assert 200 == response.status_code
    assert BLUE | FULL | changed == response.json() == await admin.get("/teams/blue")


async def test_changes_at_the_same_time_are_all_kept(admin: Administration) -> None:
    """Each is of its own field; a caller that was slower works on what the other has written."""
    await admin.make("teams", name="blue")
    patches: list[dict[str, Any]] = [
        {"weight": 2},
        {"blocked": True},
        {"priority": "low"},
        {"limits": {"concurrent": 5}},
    ]
    responses = await asyncio.gather(*(admin.ask("PATCH", "/teams/blue", patch) for patch in patches))
    team = await admin.get("/teams/blue")

    assert [200] * 4 == [response.status_code for response in responses]
    assert (2.0, True, "low", {"concurrent": 5}) == (
        team["weight"],
        team["blocked"],
        team["priority"],
        team["limits"],
    )


@pytest.mark.parametrize(
    ("patch", "param"),
    [({"weight": "x"}, "weight"), ({"limits": {"concurrent": 0}}, "limits.concurrent"), ({"limits": 5}, "limits")],
)
async def test_a_patch_that_is_wrong_changes_nothing(admin: Administration, patch: dict[str, Any], param: str) -> None:
    await admin.make("teams", name="blue")

    assert (400, None, param) == fault(await admin.ask("PATCH", "/teams/blue", {"blocked": True, **patch}))
    assert BLUE == await admin.get("/teams/blue")


async def test_an_operator_changes_limits_and_blocks(admin: Administration) -> None:
    await admin.make("teams", name="blue")
    patch = {"limits": {"concurrent": 1}, "model_limits": {}, "blocked": True, "weight": 2, "priority": "low"}

    assert 200 == (await admin.ask("PATCH", "/teams/blue", patch, who="op")).status_code


@pytest.mark.parametrize(
    "patch", [{"models": None}, {"fallback": True}, {"isolated_cache": False}, {"blocked": True, "projects": ["x"]}]
)
async def test_an_operator_changes_nothing_else(admin: Administration, patch: dict[str, Any]) -> None:
    """What a team may use is the owner's to say."""
    await admin.make("teams", name="blue")
    response = await admin.ask("PATCH", "/teams/blue", patch, who="op")

    assert (403, "role_not_sufficient", None) == fault(response)
    assert "needs the role 'owner'" in message(response)
    assert BLUE == await admin.get("/teams/blue")


async def test_a_team_is_deleted(admin: Administration) -> None:
    await admin.make("teams", name="blue")
    deleted = await admin.ask("DELETE", "/teams/blue")
    again = await admin.ask("DELETE", "/teams/blue")

    assert (204, b"") == (deleted.status_code, deleted.content)
    assert (404, "not_found", None) == fault(again)
    assert {} == await stored(admin)


async def test_a_team_with_keys_is_deleted_only_with_them(admin: Administration) -> None:
    await admin.make("teams", name="blue")
    await admin.make("keys", team="blue", id="ci")
    refused = await admin.ask("DELETE", "/teams/blue")
    deleted = await admin.ask("DELETE", "/teams/blue?cascade=true")
    (entry, *_) = await admin.audited()

    assert (409, "conflict", None) == fault(refused)
    assert 204 == deleted.status_code
    assert [] == (await admin.get("/keys"))["data"]
    assert ("delete", "team", "blue", ["ci"]) == (entry["action"], entry["kind"], entry["id"], entry["before"]["keys"])


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("PATCH", {}), ("DELETE", None)])
async def test_a_team_that_there_is_not(admin: Administration, method: str, body: Any) -> None:
    response = await admin.ask(method, "/teams/red", body)

    assert (404, "not_found", None) == fault(response)
    assert "There is no team 'red'" == message(response)


@pytest.mark.parametrize(("method", "body"), [("PUT", {}), ("PATCH", {"weight": 2}), ("DELETE", None)])
async def test_a_declared_team_is_changed_where_it_is_declared(method: str, body: Any) -> None:
    declared = Declared({"blue": Team(name="blue")})
    async with administration(declared=declared) as admin:
        response = await admin.ask(method, "/teams/blue", body)
        made = await admin.ask("POST", "/teams", {"name": "blue"})

        assert (409, "conflict", None) == fault(response)
        assert "declared in the configuration" in message(response)
        assert (409, "conflict", "name") == fault(made)
        assert BLUE | {"declared": True} == await admin.get("/teams/blue")
        assert {} == await stored(admin)


async def test_every_change_is_in_the_audit_log(admin: Administration) -> None:
    await admin.make("teams", name="blue")
    await admin.ask("PATCH", "/teams/blue", {"limits": {"concurrent": 5}}, who="op")
    await admin.ask("DELETE", "/teams/blue")
    entries = await admin.audited()

    assert [
        ("ow", "owner", "delete", {"concurrent": 5}, None),
        ("op", "operator", "update", {}, {"concurrent": 5}),
        ("ow", "owner", "create", None, {}),
    ] == [
        (
            entry["who"],
            entry["role"],
            entry["action"],
            entry["before"] and entry["before"]["limits"],
            entry["after"] and entry["after"]["limits"],
        )
        for entry in entries
    ]
    assert {("team", "blue", "blue", "2026-11-21T08:00:00.000Z")} == {
        (entry["kind"], entry["id"], entry["team"], entry["time"]) for entry in entries
    }


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/teams", {"name": "red", "guardrails": ["pii", "gone"]}),
        ("PUT", "/teams/red", {"guardrails": ["gone"]}),
        ("PATCH", "/teams/blue", {"guardrails": ["gone"]}),
    ],
)
async def test_a_guardrail_that_is_not_configured_is_refused(
    admin: Administration, method: str, path: str, body: dict[str, Any]
) -> None:
    """It would do nothing, and the requests of the team would be refused."""
    await admin.make("teams", name="blue", guardrails=["pii"])
    response = await admin.ask(method, path, body)

    assert (400, None, "guardrails") == fault(response)
    assert "is not configured: declare it under guardrails" in message(response)


async def test_a_team_whose_guardrail_is_gone_can_be_changed_otherwise() -> None:
    async with administration(guardrails=()) as admin:
        team = Team(name="blue", guardrails=("pii",))
        await admin.store.write(
            PutTeam(team), AuditEntry(time="", who="", role="", action="create", kind="team", id="")
        )

        assert 200 == (await admin.ask("PATCH", "/teams/blue", {"blocked": True})).status_code
        assert 200 == (await admin.ask("PATCH", "/teams/blue", {"guardrails": None})).status_code
