"""/admin/v1/keys."""

import json
import re
from typing import Any

import pytest

from gateway.teams.declared import Declared
from gateway.teams.key import Key
from gateway.teams.team import Team
from tests.gateway.api.admin_v1.administration import NOW, Administration, administration, fault, message

CI: dict[str, Any] = {
    "object": "key",
    "id": "ci",
    "team": "blue",
    "project": None,
    "models": None,
    "strategies": None,
    "fallback": None,
    "networks": None,
    "priority": None,
    "weight": None,
    "blocked": False,
    "expires_at": None,
    "limits": {},
    "model_limits": {},
    "created_at": "2026-11-21T08:00:00Z",
    "expired": False,
    "former_until": None,
    "declared": False,
}


@pytest.fixture
async def blue(admin: Administration) -> Administration:
    """There is a team blue."""
    await admin.make("teams", name="blue")
    return admin


async def stored(admin: Administration, key_id: str = "ci") -> Key:
    return (await admin.store.load()).keys[key_id]


async def test_a_key_is_made_and_its_secret_is_shown_once(blue: Administration) -> None:
    """What is kept is a digest."""
    made = await blue.make("keys", team="blue", id="ci")
    secret = made.pop("secret")

    assert CI == made == await blue.get("/keys/ci")
    assert re.fullmatch(r"wg-ci-[A-Za-z0-9_-]{43}", secret)
    assert blue.digester.digest(secret) == (await stored(blue)).digest


async def test_an_answer_with_a_secret_is_not_to_be_kept(blue: Administration) -> None:
    made = await blue.ask("POST", "/keys", {"team": "blue", "id": "ci"})
    rotated = await blue.ask("POST", "/keys/ci/rotate")

    assert ["no-store"] * 2 == [response.headers["cache-control"] for response in (made, rotated)]


async def test_a_key_opens_the_gateway_at_once(blue: Administration) -> None:
    """The one that made it."""
    secret = (await blue.make("keys", team="blue"))["secret"]

    assert blue.directory.caller_of(blue.digester.digest(secret)) is not None


async def test_an_id_is_made_where_none_is_given(blue: Administration) -> None:
    one, two = [(await blue.make("keys", team="blue"))["id"] for _ in range(2)]

    assert re.fullmatch("k[0-9a-f]{12}", one)
    assert one != two


async def test_a_key_is_made_with_everything(blue: Administration) -> None:
    body = {
        "project": "search",
        "models": ["tiny"],
        "strategies": [],
        "fallback": False,
        "networks": ["10.0.0.0/8", "::1/128"],
        "priority": "low",
        "weight": 0.5,
        "blocked": True,
        "limits": {"tokens_per_minute": 50_000},
        "model_limits": {"tiny": {"usd_per_day": 0.5}},
    }
    made = await blue.make("keys", team="blue", id="ci", expires_at="2026-11-21T10:00:00+01:00", **body)
    del made["secret"]

    assert CI | body | {"expires_at": "2026-11-21T09:00:00Z"} == made == await blue.get("/keys/ci")
    assert NOW + 3600 == (await stored(blue)).expires_at


async def test_a_key_that_is_over_already_is_not_made(blue: Administration) -> None:
    response = await blue.ask("POST", "/keys", {"team": "blue", "expires_at": "2026-11-21T08:00:00Z"})

    assert (400, None, "expires_at") == fault(response)


async def test_a_key_of_no_team_is_not_made(blue: Administration) -> None:
    assert (404, "not_found", "team") == fault(await blue.ask("POST", "/keys", {"team": "red"}))
    assert [] == (await blue.get("/keys"))["data"]


async def test_an_id_is_given_once_over_all_teams(blue: Administration) -> None:
    await blue.make("teams", name="red")
    await blue.make("keys", team="blue", id="ci")

    assert (409, "conflict", "id") == fault(await blue.ask("POST", "/keys", {"team": "red", "id": "ci"}))


@pytest.mark.parametrize("body", [{"team": "blue"}, {"team": "blue", "id": "ci"}])
async def test_a_repeated_request_makes_no_second_key(blue: Administration, body: dict[str, str]) -> None:
    """Its secret cannot be shown again; the answer says which key it is, and how to get another secret."""
    first = (await blue.ask("POST", "/keys", body, idempotency_key="k-1")).json()
    second = await blue.ask("POST", "/keys", body, idempotency_key="k-1")

    assert (409, "conflict", "idempotency-key") == fault(second)
    assert f"POST /admin/v1/keys/{first['id']}/rotate" in message(second)
    assert first["secret"] not in second.text
    assert [first["id"]] == [key["id"] for key in (await blue.get("/keys"))["data"]]


async def test_a_header_is_forgotten_after_a_day(blue: Administration) -> None:
    await blue.ask("POST", "/keys", {"team": "blue"}, idempotency_key="k-1")
    blue.clock.now += 86_400

    assert 201 == (await blue.ask("POST", "/keys", {"team": "blue"}, idempotency_key="k-1")).status_code


async def test_keys_are_listed_by_id_in_pages_and_by_team(blue: Administration) -> None:
    await blue.make("teams", name="red")
    for key_id, team in (("c", "blue"), ("a", "blue"), ("b", "red")):
        await blue.make("keys", team=team, id=key_id)
    everything = await blue.get("/keys")
    first = await blue.get("/keys?team=blue&limit=1")
    second = await blue.get(f"/keys?team=blue&limit=1&after={first['next']}")

    assert ["a", "b", "c"] == [key["id"] for key in everything["data"]]
    assert (["a"], ["c"], None) == (*([key["id"] for key in page["data"]] for page in (first, second)), second["next"])
    assert [] == (await blue.get("/keys?team=green"))["data"]


async def test_no_answer_holds_a_secret_or_a_digest(blue: Administration) -> None:
    """Of the keys, of the changes, and of their log."""
    secrets = [(await blue.make("keys", team="blue", id="ci"))["secret"]]
    secrets.append((await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 60})).json()["secret"])
    patched = (await blue.ask("PATCH", "/keys/ci", {"weight": 2})).json()
    shown = json.dumps([patched, await blue.get("/keys"), await blue.get("/keys/ci"), await blue.audited()])

    assert [] == [secret for secret in secrets if secret[6:] in shown]
    assert [] == [secret for secret in secrets if blue.digester.digest(secret) in shown]
    assert "digest" not in shown


async def test_a_rotation_replaces_the_secret(blue: Administration) -> None:
    """Without a grace the former one counts no more."""
    first = (await blue.make("keys", team="blue", id="ci"))["secret"]
    response = await blue.ask("POST", "/keys/ci/rotate", who="op")
    second = response.json()["secret"]
    key = await stored(blue)

    assert 200 == response.status_code
    assert first != second
    assert (blue.digester.digest(second), None) == (key.digest, key.former_digest)
    assert CI | {"secret": second} == response.json()


async def test_during_the_grace_both_secrets_count(blue: Administration) -> None:
    first = (await blue.make("keys", team="blue", id="ci"))["secret"]
    second = (await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 90})).json()
    key = await stored(blue)

    assert (blue.digester.digest(first), NOW + 90) == (key.former_digest, key.former_until)
    assert "2026-11-21T08:01:30Z" == second["former_until"]


async def test_a_grace_is_over_at_last(blue: Administration) -> None:
    """A month is the longest."""
    await blue.make("keys", team="blue", id="ci")

    assert (400, None, "grace_s") == fault(await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 31 * 86_400}))


async def test_a_key_is_blocked_and_unblocked(blue: Administration) -> None:
    await blue.make("keys", team="blue", id="ci")
    blocked = (await blue.ask("PATCH", "/keys/ci", {"blocked": True}, who="op")).json()
    unblocked = (await blue.ask("PATCH", "/keys/ci", {"blocked": False}, who="op")).json()

    assert (CI | {"blocked": True}, CI) == (blocked, unblocked)


async def test_a_patch_leaves_secret_and_team_as_they_are(blue: Administration) -> None:
    await blue.make("keys", team="blue", id="ci")
    before = await stored(blue)
    await blue.ask("PATCH", "/keys/ci", {"models": ["tiny"], "limits": {"concurrent": 1}, "project": "x"})
    after = await stored(blue)

    assert (before.digest, before.team, before.created_at) == (after.digest, after.team, after.created_at)
    assert (("tiny",), 1, "x") == (after.models, after.limits.concurrent, after.project)


@pytest.mark.parametrize("patch", [{"models": None}, {"networks": None}, {"expires_at": None}, {"project": "x"}])
async def test_an_operator_cannot_let_a_key_do_more(blue: Administration, patch: dict[str, Any]) -> None:
    await blue.make("keys", team="blue", id="ci")

    assert (403, "role_not_sufficient", None) == fault(await blue.ask("PATCH", "/keys/ci", patch, who="op"))


@pytest.mark.parametrize("field", ["id", "team", "secret", "digest", "created_at", "former_until"])
async def test_some_things_never_change(blue: Administration, field: str) -> None:
    await blue.make("keys", team="blue", id="ci")

    assert (400, None, field) == fault(await blue.ask("PATCH", "/keys/ci", {field: "x"}))


async def test_a_key_ends_when_it_is_told_to(blue: Administration) -> None:
    await blue.make("keys", team="blue", id="ci")
    await blue.ask("PATCH", "/keys/ci", {"expires_at": "2026-11-21T08:00:01Z"})
    before = (await blue.get("/keys/ci"))["expired"]
    blue.clock.now += 1

    assert (False, True) == (before, (await blue.get("/keys/ci"))["expired"])


async def test_a_key_is_deleted(blue: Administration) -> None:
    """At once here, and for good."""
    secret = (await blue.make("keys", team="blue", id="ci"))["secret"]
    deleted = await blue.ask("DELETE", "/keys/ci")
    again = await blue.ask("DELETE", "/keys/ci")

    assert (204, b"") == (deleted.status_code, deleted.content)
    assert (404, "not_found", None) == fault(again)
    assert blue.directory.caller_of(blue.digester.digest(secret)) is None


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", "", None), ("PATCH", "", {}), ("DELETE", "", None), ("POST", "/rotate", {})],
)
async def test_a_key_that_there_is_not(admin: Administration, method: str, path: str, body: Any) -> None:
    response = await admin.ask(method, f"/keys/ci{path}", body)

    assert (404, "not_found", None) == fault(response)
    assert "There is no key 'ci'" == message(response)


DECLARED = Declared({"blue": Team(name="blue")}, {"ci": Key(id="ci", team="blue", digest="d")})


@pytest.mark.parametrize(
    ("method", "path", "body"), [("PATCH", "", {"weight": 2}), ("DELETE", "", None), ("POST", "/rotate", {})]
)
async def test_a_declared_key_is_changed_where_it_is_declared(method: str, path: str, body: Any) -> None:
    async with administration(declared=DECLARED) as admin:
        response = await admin.ask(method, f"/keys/ci{path}", body)

        assert (409, "conflict", None) == fault(response)
        assert "declared in the configuration" in message(response)
        assert CI | {"declared": True, "created_at": None} == await admin.get("/keys/ci")


async def test_a_declared_team_can_have_more_keys() -> None:
    """Those are the store's."""
    async with administration(declared=DECLARED) as admin:
        made = await admin.make("keys", team="blue", id="more")
        rotated = await admin.ask("POST", "/keys/more/rotate")

        assert not made["declared"]
        assert 200 == rotated.status_code
        assert (409, "conflict", "id") == fault(await admin.ask("POST", "/keys", {"team": "blue", "id": "ci"}))


async def test_every_change_is_in_the_audit_log(blue: Administration) -> None:
    await blue.make("keys", team="blue", id="ci")
    await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 60}, who="op")
    await blue.ask("PATCH", "/keys/ci", {"blocked": True}, who="op")
    await blue.ask("DELETE", "/keys/ci")
    deleted, updated, rotated, created, _ = await blue.audited()

    assert [("ow", "delete"), ("op", "update"), ("op", "rotate"), ("ow", "create")] == [
        (entry["who"], entry["action"]) for entry in (deleted, updated, rotated, created)
    ]
    assert {("key", "ci", "blue")} == {
        (entry["kind"], entry["id"], entry["team"]) for entry in (deleted, updated, rotated, created)
    }
    assert (None, "2026-11-21T08:01:00Z") == (rotated["before"]["former_until"], rotated["after"]["former_until"])
    assert (False, True) == (updated["before"]["blocked"], updated["after"]["blocked"])
    assert (None, None) == (created["before"], deleted["after"])
