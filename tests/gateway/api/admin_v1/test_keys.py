"""/admin/v1/keys."""

import asyncio
import json
import re
from typing import Any

import pytest

from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.key import Former, Key
from gateway.tenancy.teams.team import Team
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
    "limit_template": None,
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


async def dumped(admin: Administration) -> str:
    """Everything that the store holds."""
    return await admin.file.run(lambda connection: "\n".join(connection.iterdump()))


async def stored(admin: Administration, key_id: str = "ci") -> Key:
    return (await admin.store.load()).keys[key_id]


async def test_a_key_is_made_and_its_secret_is_shown_once(blue: Administration) -> None:
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
        "limit_template": "trial",
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
    """Its answer is that of the first one, with the same secret, which the store does not hold."""
    first = await blue.ask("POST", "/keys", body, idempotency_key="k-1")
    second = await blue.ask("POST", "/keys", body, idempotency_key="k-1")

    assert [(201, first.json())] * 2 == [(each.status_code, each.json()) for each in (first, second)]
    assert [None, "true"] == [each.headers.get("idempotent-replayed") for each in (first, second)]
    assert [first.json()["id"]] == [key["id"] for key in (await blue.get("/keys"))["data"]]
    assert first.json()["secret"].removeprefix(f"wg-{first.json()['id']}-") not in await dumped(blue)


async def test_a_secret_that_has_been_replaced_is_not_shown_again(blue: Administration) -> None:
    """The answer says how to get another one."""
    first = (await blue.ask("POST", "/keys", {"team": "blue", "id": "ci"}, idempotency_key="k-1")).json()
    await blue.ask("POST", "/keys/ci/rotate")
    second = await blue.ask("POST", "/keys", {"team": "blue", "id": "ci"}, idempotency_key="k-1")

    assert (409, "conflict", "idempotency-key") == fault(second)
    assert "POST /admin/v1/keys/ci/rotate" in message(second)
    assert first["secret"] not in second.text


async def test_the_same_header_of_another_day_gives_another_secret(blue: Administration) -> None:
    secrets = []
    for _ in range(2):
        made = await blue.ask("POST", "/keys", {"team": "blue", "id": "ci"}, idempotency_key="k-1")
        secrets.append(made.json()["secret"])
        await blue.ask("DELETE", "/keys/ci")
        blue.clock.now += 86_400

    assert secrets[0] != secrets[1]


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
    response = await blue.ask("POST", "/keys/ci/rotate")
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


async def test_a_repeated_rotation_changes_nothing(blue: Administration) -> None:
    """It has the answer of the first one, and the original secret keeps its grace."""
    first = (await blue.make("keys", team="blue", id="ci"))["secret"]
    answers = [await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 90}, idempotency_key="r-1") for _ in range(2)]
    key = await stored(blue)

    assert [(200, answers[0].json())] * 2 == [(each.status_code, each.json()) for each in answers]
    assert [None, "true"] == [each.headers.get("idempotent-replayed") for each in answers]
    assert (blue.digester.digest(first), NOW + 90, ()) == (key.former_digest, key.former_until, key.earlier)
    assert ["rotate", "create"] == [entry["action"] for entry in await blue.audited() if entry["kind"] == "key"]
    assert answers[0].json()["secret"].removeprefix("wg-ci-") not in await dumped(blue)


async def test_rotations_with_one_header_at_the_same_time_are_one(blue: Administration) -> None:
    await blue.make("keys", team="blue", id="ci")
    answers = await asyncio.gather(
        *(blue.ask("POST", "/keys/ci/rotate", {"grace_s": 90}, idempotency_key="r-1") for _ in range(5))
    )

    assert 1 == len({answer.json()["secret"] for answer in answers})
    assert 1 == len([entry for entry in await blue.audited() if entry["action"] == "rotate"])


async def test_a_header_stands_for_one_rotation_only(blue: Administration) -> None:
    """Another body is another request; and after somebody else's rotation the answer of the first is not true."""
    await blue.make("keys", team="blue", id="ci")
    await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 90}, idempotency_key="r-1")
    other = await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 91}, idempotency_key="r-1")
    await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 90})
    late = await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 90}, idempotency_key="r-1")

    assert (409, "conflict", "idempotency-key") == fault(other)
    assert (409, "conflict", None) == fault(late)
    assert "Another request has rotated the key" in message(late)


async def test_a_second_rotation_shortens_no_grace(blue: Administration) -> None:
    """The answer to the first one was lost, and the header forgotten: the original secret counts as promised."""
    first = (await blue.make("keys", team="blue", id="ci"))["secret"]
    await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 90})
    card = (await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 30})).json()
    key = await stored(blue)
    ended = (await blue.ask("POST", "/keys/ci/rotate", {"end_graces": True})).json()

    assert Former(blue.digester.digest(first), NOW + 90) in key.formers(NOW + 89)
    assert ("2026-11-21T08:01:30Z", None) == (card["former_until"], ended["former_until"])
    assert () == (await stored(blue)).all_formers()


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


async def test_a_key_ends_when_it_is_reported_to(blue: Administration) -> None:
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
    await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 60})
    await blue.ask("PATCH", "/keys/ci", {"blocked": True}, who="op")
    await blue.ask("DELETE", "/keys/ci")
    deleted, updated, rotated, created, _ = await blue.audited()

    assert [("ow", "delete"), ("op", "update"), ("ow", "rotate"), ("ow", "create")] == [
        (entry["who"], entry["action"]) for entry in (deleted, updated, rotated, created)
    ]
    assert {("key", "ci", "blue")} == {
        (entry["kind"], entry["id"], entry["team"]) for entry in (deleted, updated, rotated, created)
    }
    assert (None, "2026-11-21T08:01:00Z") == (rotated["before"]["former_until"], rotated["after"]["former_until"])
    assert (False, True) == (updated["before"]["blocked"], updated["after"]["blocked"])
    assert (None, None) == (created["before"], deleted["after"])
