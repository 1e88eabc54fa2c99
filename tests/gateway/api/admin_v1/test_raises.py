"""/admin/v1/teams/{name}/raises and /admin/v1/keys/{key_id}/raises."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.gateway.api.admin_v1.administration import Administration, administration, fault

RAISE: dict[str, Any] = {"measure": "tokens_per_day", "amount": 500, "for_s": 3600, "reason": "launch of search"}


@pytest.fixture
async def admin() -> AsyncIterator[Administration]:
    """Return an administration with the team blue and its key ci, which both have limits."""
    async with administration() as found:
        limits = {"tokens_per_day": 100}
        await found.make(
            "teams", name="blue", limits=limits, user_limits=limits, project_limits={"search": {"concurrent": 2}}
        )
        await found.make("keys", team="blue", id="ci", limits=limits)
        yield found


async def test_a_raise_has_an_end_a_reason_and_an_author(admin: Administration) -> None:
    given = await admin.ask("POST", "/teams/blue/raises", RAISE, who="op")
    (listed,) = (await admin.get("/teams/blue/raises"))["data"]
    latest = (await admin.audited())[0]

    assert 201 == given.status_code
    assert given.json() == listed
    assert ("raise", "team", "blue", None, "tokens_per_day", 500.0, "launch of search", "op") == tuple(
        listed[name] for name in ("object", "scope", "name", "model", "measure", "amount", "reason", "created_by")
    )
    assert listed["created_at"] < listed["until"]
    assert ["update", "team", "blue", "op"] == [latest[name] for name in ("action", "kind", "id", "who")]
    assert ({"raises": []}, {"raises": [listed]}) == (latest["before"], latest["after"])


@pytest.mark.parametrize(
    ("owner", "scope", "name"),
    [
        ({"user": "alice"}, "user", "alice"),
        ({"user": ""}, "user", ""),
        ({"project": "search", "measure": "concurrent"}, "project", "search"),
    ],
)
async def test_limits_within_a_team_can_be_raised(
    admin: Administration, owner: dict[str, str], scope: str, name: str
) -> None:
    given = await admin.ask("POST", "/teams/blue/raises", RAISE | owner)

    assert (201, scope, name) == (given.status_code, given.json()["scope"], given.json()["name"])


async def test_a_raise_of_a_key_is_stored_with_the_key(admin: Administration) -> None:
    given = await admin.ask("POST", "/keys/ci/raises", RAISE)
    raises = (await admin.store.load()).keys["ci"].raises

    assert (201, "key", "ci") == (given.status_code, given.json()["scope"], given.json()["name"])
    assert [given.json()["id"]] == [each.id for each in raises]


async def test_a_raise_can_be_ended_early_and_once(admin: Administration) -> None:
    for path in ("/teams/blue/raises", "/keys/ci/raises"):
        given = (await admin.ask("POST", path, RAISE)).json()
        ended = [(await admin.ask("DELETE", f"{path}/{given['id']}")).status_code for _ in range(2)]

        assert [204, 404] == ended
        assert [] == (await admin.get(path))["data"]


async def test_changes_of_the_team_keep_its_raises(admin: Administration) -> None:
    await admin.ask("POST", "/teams/blue/raises", RAISE)
    await admin.ask("PATCH", "/teams/blue", {"weight": 2.0})
    await admin.ask("PUT", "/teams/blue", {"limits": {"tokens_per_day": 100}, "weight": 3.0})

    assert 1 == len((await admin.get("/teams/blue/raises"))["data"])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"measure": "usd_per_day"}, "measure"),
        ({"amount": 100}, "amount"),
        ({"amount": -1}, "amount"),
        ({"for_s": 0}, "for_s"),
        ({"for_s": 91 * 86400}, "for_s"),
        ({"reason": ""}, "reason"),
        ({"reason": "r" * 301}, "reason"),
        ({"user": "alice", "session": "s"}, "session"),
        ({"user": "alice", "model": "tiny"}, "model"),
        ({"user": "u" * 257}, "user"),
        ({"project": "gone"}, "measure"),
        ({"measure": "soft_tokens_per_day"}, "measure"),
    ],
)
async def test_a_wrong_raise_is_refused(admin: Administration, body: dict[str, Any], param: str) -> None:
    assert (400, param) == fault(await admin.ask("POST", "/teams/blue/raises", RAISE | body))[::2]


async def test_the_number_of_raises_is_bounded(admin: Administration) -> None:
    statuses = [(await admin.ask("POST", "/teams/blue/raises", RAISE)).status_code for _ in range(51)]

    assert [201] * 50 + [409] == statuses


async def test_only_operators_raise_limits(admin: Administration) -> None:
    for path in ("/teams/blue/raises", "/keys/ci/raises"):
        assert 403 == (await admin.ask("POST", path, RAISE, who="vi")).status_code
        assert 403 == (await admin.ask("DELETE", f"{path}/r1", who="vi")).status_code


async def test_what_does_not_exist_cannot_be_raised(admin: Administration) -> None:
    assert 404 == (await admin.ask("POST", "/teams/green/raises", RAISE)).status_code
    assert 404 == (await admin.ask("POST", "/keys/cd/raises", RAISE)).status_code
