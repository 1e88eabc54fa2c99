"""Limit templates and model groups that API-managed teams and keys name."""

from typing import Any

import pytest

from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.named_rules import NamedRules
from tests.gateway.api.admin_v1.administration import RULES, Administration, fault


async def test_a_team_shows_the_names_and_has_what_they_stand_for(admin: Administration) -> None:
    await admin.make("teams", name="blue", limit_template="trial", models=["group:chat"])
    shown = await admin.get("/teams/blue")
    team = admin.directory.teams["blue"]

    assert ("trial", {}, ["group:chat"]) == (shown["limit_template"], shown["limits"], shown["models"])
    assert (Limits(requests_per_minute=6, usd_per_month=5.0), ("tiny", "gpt-4*")) == (team.limits, team.models)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"limit_template": "gold"}, "limit_template"),
        ({"models": ["group:code"]}, "models"),
        ({"models": ["group:*"]}, "models[0]"),
    ],
)
async def test_names_that_are_not_configured_are_refused(
    admin: Administration, body: dict[str, Any], param: str
) -> None:
    await admin.make("teams", name="blue")
    made = await admin.ask("POST", "/teams", {"name": "red", **body})
    changed = await admin.ask("PATCH", "/teams/blue", body)
    key = await admin.ask("POST", "/keys", {"team": "blue", **body})

    assert [(400, None, param)] * 3 == [fault(made), fault(changed), fault(key)]
    assert ["blue"] == [team["name"] for team in (await admin.get("/teams"))["data"]]


async def test_a_team_whose_template_was_removed_can_still_be_changed(admin: Administration) -> None:
    """For example, blocked, or given another template."""
    await admin.make("teams", name="blue", limit_template="trial", models=["group:chat"])
    admin.directory.declare(Declared(rules=NamedRules({"standard": Limits(concurrent=1)})))
    blocked = await admin.ask("PATCH", "/teams/blue", {"blocked": True})
    other = await admin.ask("PATCH", "/teams/blue", {"limit_template": "standard"})

    assert (200, 200) == (blocked.status_code, other.status_code)
    assert (True, "standard") == (other.json()["blocked"], other.json()["limit_template"])


async def test_an_operator_chooses_a_limit_template(admin: Administration) -> None:
    await admin.make("teams", name="blue")
    changed = await admin.ask("PATCH", "/teams/blue", {"limit_template": "standard"}, who="op")

    assert (200, "standard") == (changed.status_code, changed.json()["limit_template"])


async def test_a_limit_of_a_template_can_be_raised_and_its_name_stays(admin: Administration) -> None:
    await admin.make("teams", name="blue", limit_template="trial")
    body = {"measure": "usd_per_month", "amount": 50, "for_s": 60, "reason": "launch"}
    lower = await admin.ask("POST", "/teams/blue/raises", body | {"amount": 4})
    higher = await admin.ask("POST", "/teams/blue/raises", body)

    assert (400, 201) == (lower.status_code, higher.status_code)
    shown = await admin.get("/teams/blue")
    assert ("trial", {}) == (shown["limit_template"], shown["limits"])


async def test_a_key_shows_the_template_that_it_names(admin: Administration) -> None:
    await admin.make("teams", name="blue")
    made = await admin.make("keys", team="blue", id="ci", limit_template="trial")

    assert ("trial", {}) == (made["limit_template"], made["limits"])
    assert RULES.templates["trial"] == admin.directory.keys["ci"].limits
    assert ["trial"] == [key["limit_template"] for key in (await admin.get("/keys"))["data"]]
