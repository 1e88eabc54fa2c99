"""Attacks on the admin API by its own lower roles and by strangers."""

from collections.abc import AsyncIterator

import pytest

from tests.gateway.api.admin_v1.administration import Administration, administration, fault


@pytest.fixture
async def blue() -> AsyncIterator[Administration]:
    """There is a team blue with a key ci."""
    async with administration() as admin:
        await admin.make("teams", name="blue")
        await admin.make("keys", team="blue", id="ci")
        yield admin


@pytest.mark.parametrize("who", ["op", "vi"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/keys/ci/rotate", {}),
        ("POST", "/keys/ci/rotate", {"grace_s": 3600}),
        ("POST", "/keys", {"team": "blue"}),
    ],
)
async def test_only_owners_get_secrets(
    blue: Administration, who: str, method: str, path: str, body: dict[str, object]
) -> None:
    """An operator that rotates a key would have the rights of its team, and lock its owner out."""
    before = (await blue.store.load()).keys
    response = await blue.ask(method, path, body, who=who)

    assert (403, "role_not_sufficient", None) == fault(response)
    assert "secret" not in response.text
    assert before == (await blue.store.load()).keys


async def test_an_operator_does_not_get_the_secret_of_an_owners_request_again(blue: Administration) -> None:
    """The idempotency key of somebody else opens nothing: neither to lower roles nor to another owner."""
    await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 60}, idempotency_key="r-1")
    response = await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 60}, who="op", idempotency_key="r-1")

    assert (403, "role_not_sufficient", None) == fault(response)


async def test_strangers_are_in_the_audit_log_and_cannot_fill_it(blue: Administration) -> None:
    """Five hundred wrong keys are one entry, with their number and none of the keys."""
    before = len(await blue.audited())
    async with blue.client(None) as client:
        for i in range(500):
            response = await client.get("/admin/v1/keys", headers={"x-api-key": f"guess-{i}"})
            assert 401 == response.status_code
            await blue.refused_logins.settle()
        blue.clock.now += 60
        await blue.refused_logins.settle()
    newest, second, *rest = await blue.audited()

    assert before == len(rest)
    assert [("unknown", "refuse", "login", 499), ("unknown", "refuse", "login", 1)] == [
        (entry["who"], entry["action"], entry["kind"], entry["after"]["requests"]) for entry in (newest, second)
    ]
    assert "guess" not in str([newest, second])
