"""Tokens of an identity provider before the real program: an issuer that serves its keys, and the OpenAI SDK."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.stack import Stack, stack
from tests.gateway.app.test_key_sets import issuer, ok
from tests.gateway.tenancy.identity.signing import curve_key, jwk, key_set, token

Closing = Callable[[], Awaitable[None]]
TOKEN = "the-admins-own-token"
MESSAGES: Any = [{"role": "user", "content": "A question of some length. " * 20}]


@asynccontextmanager
async def served_with_issuer(tmp_path: Path, **groups: Any) -> AsyncIterator[tuple[Stack, str, Closing]]:
    """A gateway with the team platform that trusts an issuer, the address of the issuer, and what ends the issuer."""
    answers: dict[str, bytes] = {"/keys": ok(key_set(jwk(curve_key())))}
    async with AsyncExitStack() as ends:
        address = await ends.enter_async_context(issuer(answers))
        document = json.dumps({"issuer": address, "jwks_uri": f"{address}/keys"}).encode()
        answers["/.well-known/openid-configuration"] = ok(document)
        rules = [
            {"value": "admins", "team": "platform"},
            {"value": "llm-*", "team": "{rest}", "create_team": {"limits": {"requests_per_minute": 5}}},
        ]
        issuers = [{"name": "okta", "issuer": address, "audiences": ["warmgate"], "rules": rules}]
        async with stack(
            1,
            teams=[{"name": "platform", "keys": [{"id": "ci", "secret": "wg-ci-secret"}]}],
            identity={"issuers": issuers},
            store={"url": f"sqlite:///{tmp_path}/warmgate.db"},
            admin={"keys": [{"role": "owner", "secret": TOKEN}]},
            **groups,
        ) as served:
            yield served, address, ends.aclose


def signed(address: str, **claims: Any) -> str:
    return token(**{**times(address), "groups": ["admins"], **claims})


def times(address: str) -> dict[str, Any]:
    now = time.time()
    return {"iss": address, "iat": now - 5, "exp": now + 300}


async def asked(served: Stack, said: str, **more: Any) -> Any:
    client = served.openai.with_options(api_key=said)
    return await client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=3, **more)


async def status_of_unknown_key(served: Stack, address: str) -> tuple[int, str | None]:
    """The status and the code of the refusal of a token whose signing key the gateway does not know."""
    with pytest.raises(openai.APIStatusError) as refused:
        await asked(served, token(curve_key("new"), head={"kid": "new"}, **times(address)))
    return refused.value.status_code, refused.value.code


async def ask_often(served: Stack, address: str) -> None:
    """Ask far more often than five times a minute, as several end users of one team."""
    for number in range(100):
        await asked(served, signed(address, groups=["llm-research"], sub=f"user-{number}"))


async def admin(served: Stack, path: str) -> Any:
    response = await served.http.get(f"/admin/v1/{path}", headers={"authorization": f"Bearer {TOKEN}"})
    assert 200 == response.status_code, response.text
    return response.json()


async def test_a_token_serves_as_the_api_key_of_the_sdk(tmp_path: Path) -> None:
    async with served_with_issuer(tmp_path) as (served, address, _):
        answer = await asked(served, signed(address), user="somebody-else")
        await asked(served, signed(address))
        await asked(served, "wg-ci-secret")
        lines = await served.lines(3)

        assert 3 == answer.usage.completion_tokens
        assert [("platform", "oidc:okta"), ("platform", "oidc:okta"), ("platform", "ci")] == [
            (line["team"], line["key"]) for line in lines
        ]
        assert "eyJ" not in served.log.getvalue().decode()


async def test_a_token_that_is_not_valid_is_refused_in_the_form_of_openai(tmp_path: Path) -> None:
    async with served_with_issuer(tmp_path) as (served, address, _):
        for said in (
            signed(address, aud="another"),
            signed(address, exp=time.time() - 31),
            signed("https://evil.example.com"),
            token(curve_key("evil"), iss=address, iat=time.time(), exp=time.time() + 300),
            signed(address)[:-4] + "AAAA",
        ):
            with pytest.raises(openai.AuthenticationError) as refused:
                await asked(served, said)
            assert ("invalid_api_key", "authentication_error") == (refused.value.code, refused.value.type)


async def test_a_team_is_created_from_its_template_and_its_limits_apply(tmp_path: Path) -> None:
    async with served_with_issuer(tmp_path) as (served, address, _):
        with pytest.raises(openai.RateLimitError):
            await ask_often(served, address)
        team = await admin(served, "teams/research")
        audit = (await admin(served, "audit"))["data"]

        assert 5 == team["limits"]["requests_per_minute"]
        assert ("oidc:okta", "issuer", "create", "team", "research") in {
            (each["who"], each["role"], each["action"], each["kind"], each["id"]) for each in audit
        }


async def test_the_models_of_a_caller_with_a_token_are_listed(tmp_path: Path) -> None:
    async with served_with_issuer(tmp_path) as (served, address, _):
        response = await served.http.get("/v1/models", headers={"authorization": f"Bearer {signed(address)}"})

        assert "tiny" in [each["id"] for each in response.json()["data"]]


async def test_a_batch_needs_an_api_key_because_a_token_expires(tmp_path: Path) -> None:
    async with served_with_issuer(tmp_path, files={"folder": str(tmp_path / "files")}) as (served, address, _):
        response = await served.http.post(
            "/v1/batches",
            json={"input_file_id": "file-1", "endpoint": "/v1/completions", "completion_window": "24h"},
            headers={"authorization": f"Bearer {signed(address)}"},
        )

        assert (403, "batch_needs_key") == (response.status_code, response.json()["error"]["code"])


async def test_while_the_issuer_is_away_known_tokens_pass_and_unknown_keys_are_not_judged(tmp_path: Path) -> None:
    async with served_with_issuer(tmp_path) as (served, address, close):
        known = signed(address)
        await asked(served, known)
        await close()
        async with asyncio.timeout(60):
            while (status := await status_of_unknown_key(served, address)) == (401, "invalid_api_key"):
                await asyncio.sleep(0.1)  # the issuer is asked again two seconds after the last time

        assert (503, "issuer_unavailable") == status
        await asked(served, known)
        await asked(served, signed(address, sub="bob"))
