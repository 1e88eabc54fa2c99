"""The official OpenAI SDK as a client with a key: what it raises, when it asks again, and when it gives up."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from openai import (
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
)

from tests.e2e.governed import Administration, administration, chat, governed, sdk
from tests.e2e.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Stack]:
    async with governed(1) as started:
        yield started


@pytest.fixture(scope="module")
def admin(served: Stack) -> Administration:
    return administration(served)


# 401


@pytest.mark.parametrize("headers", [{}, {"authorization": ""}, {"authorization": "Basic YTpi"}])
async def test_a_key_that_is_not_known_is_an_authentication_error(served: Stack, headers: dict[str, str]) -> None:
    async with sdk(served.url, "wg-unknown-" + "A" * 43, max_retries=2) as (client, sent):
        with pytest.raises(AuthenticationError) as caught:
            await client.chat.completions.create(**chat(), extra_headers=headers)

    assert (401, "invalid_api_key", "authentication_error") == (
        caught.value.status_code,
        caught.value.code,
        caught.value.type,
    )
    assert caught.value.request_id
    assert [401] == [each.status for each in sent]


async def test_a_key_that_is_blocked_is_an_authentication_error(served: Stack, admin: Administration) -> None:
    """From the next request on; and none any more when it is free again."""
    key = await admin.key()
    async with sdk(served.url, key.secret) as (client, _):
        before = await client.chat.completions.create(**chat())
        await admin.done("PATCH", f"/keys/{key.id}", {"blocked": True})
        with pytest.raises(AuthenticationError, match="is blocked") as caught:
            await client.chat.completions.create(**chat())
        await admin.done("PATCH", f"/keys/{key.id}", {"blocked": False})
        after = await client.chat.completions.create(**chat())

    assert "invalid_api_key" == caught.value.code
    assert before.choices[0].message.content == after.choices[0].message.content


async def test_a_key_of_a_blocked_team_is_an_authentication_error(served: Stack, admin: Administration) -> None:
    key = await admin.key()
    await admin.done("PATCH", f"/teams/{key.team}", {"blocked": True})
    async with sdk(served.url, key.secret) as (client, _):
        with pytest.raises(AuthenticationError, match=r"The team .* is blocked"):
            await client.models.list()


async def test_a_key_that_has_expired_is_an_authentication_error(served: Stack, admin: Administration) -> None:
    key = await admin.key()
    async with sdk(served.url, key.secret) as (client, _):
        await client.models.list()
        past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
        await admin.done("PATCH", f"/keys/{key.id}", {"expires_at": past})
        with pytest.raises(AuthenticationError, match="has expired"):
            await client.models.list()


async def test_a_deleted_key_is_an_authentication_error_at_once(served: Stack, admin: Administration) -> None:
    """Nothing remembers it: not for streams, not for other endpoints."""
    key = await admin.key()
    async with sdk(served.url, key.secret) as (client, _):
        await client.chat.completions.create(**chat())
        await admin.done("DELETE", f"/keys/{key.id}")
        with pytest.raises(AuthenticationError):
            await client.chat.completions.create(**chat(stream=True))
        with pytest.raises(AuthenticationError):
            await client.embeddings.create(model="tiny", input="hi")
        with pytest.raises(AuthenticationError):
            await client.models.list()


# 403, 404, 400


async def test_a_model_that_is_not_allowed_is_a_permission_error(served: Stack, admin: Administration) -> None:
    key = await admin.key(await admin.team(models=["other"]))
    async with sdk(served.url, key.secret, max_retries=2) as (client, sent):
        with pytest.raises(PermissionDeniedError) as caught:
            await client.chat.completions.create(**chat())

    assert (403, "model_not_allowed", "model") == (caught.value.status_code, caught.value.code, caught.value.param)
    assert caught.value.request_id
    assert [403] == [each.status for each in sent]


async def test_another_network_is_a_permission_error(served: Stack, admin: Administration) -> None:
    """What a client says of where it comes from counts for nothing: no one trusts it to."""
    key = await admin.key(networks=["10.0.0.0/8"])
    async with sdk(served.url, key.secret) as (client, _):
        with pytest.raises(PermissionDeniedError) as caught:
            await client.chat.completions.create(**chat(), extra_headers={"x-forwarded-for": "10.1.2.3"})

    assert "source_not_allowed" == caught.value.code


async def test_an_unknown_model_is_a_not_found_error(served: Stack, admin: Administration) -> None:
    """For completions and in the list of models alike, where a model that may not be used is not notified of either."""
    key = await admin.key(await admin.team(models=["gpt-4o"]))
    async with sdk(served.url, key.secret) as (client, _):
        with pytest.raises(NotFoundError) as asked:
            await client.chat.completions.create(**chat(model="gpt-9"))
        with pytest.raises(NotFoundError) as looked_up:
            await client.models.retrieve("tiny")
        listed = [model.id async for model in client.models.list()]

    assert ("model_not_found", "model") == (asked.value.code, asked.value.param)
    assert "model_not_found" == looked_up.value.code
    assert asked.value.request_id
    assert looked_up.value.request_id
    assert ["gpt-4o"] == listed


async def test_a_wrong_field_is_a_bad_request_also_with_a_key(served: Stack, admin: Administration) -> None:
    key = await admin.limited(requests_per_minute=1)
    async with sdk(served.url, key.secret) as (client, _):
        with pytest.raises(BadRequestError):
            await client.chat.completions.create(**chat(messages=[]))
        answer = await client.chat.completions.create(**chat())

    assert answer.choices[0].message.content


# 429


async def test_the_sdk_waits_as_long_as_it_is_reported_and_is_let_in(served: Stack, admin: Administration) -> None:
    """A request a second, six at once: the seventh is refused, waits for its second, and comes back into a free place.

    A fixed window would have said a minute.
    """
    key = await admin.limited(requests_per_minute=60)
    async with sdk(served.url, key.secret, max_retries=2) as (client, sent):
        while 429 not in [each.status for each in sent]:
            reply = await client.chat.completions.with_raw_response.create(**chat())

    refused, admitted = sent[-2:]
    wait_s = int(refused.headers["retry-after-ms"]) / 1000
    assert reply.parse().choices[0].message.content
    assert 1 == reply.retries_taken
    assert (429, 200) == (refused.status, admitted.status)
    assert 0 < wait_s <= 1.0
    assert "1" == refused.headers["retry-after"]
    assert wait_s <= admitted.at - refused.answered + 0.002


async def test_what_is_left_is_read_from_the_headers(served: Stack, admin: Administration) -> None:
    """Under OpenAI's names, of every answer, whole or streamed; no names of our own."""
    key = await admin.limited(requests_per_minute=100, tokens_per_minute=100_000)
    async with sdk(served.url, key.secret) as (client, _):
        whole = await client.chat.completions.with_raw_response.create(**chat())
        streamed = await client.chat.completions.with_raw_response.create(**chat(stream=True))
        async for _ in streamed.parse():
            pass

    names = {f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset") for of in ("requests", "tokens")}
    for reply in (whole, streamed):
        assert names == {name for name in reply.headers if name.startswith("x-ratelimit")}
        assert ("100", "100000") == tuple(reply.headers[f"x-ratelimit-limit-{of}"] for of in ("requests", "tokens"))
        assert 8 <= int(reply.headers["x-ratelimit-remaining-requests"]) <= 9
        assert 9000 < int(reply.headers["x-ratelimit-remaining-tokens"]) < 10_000
        assert reply.headers["x-ratelimit-reset-requests"].endswith("s")


async def test_a_refusal_names_what_is_lacking(served: Stack, admin: Administration) -> None:
    """Its type is requests or tokens, its code a word and not the status, its message without key and digest."""
    by_requests = await admin.limited(requests_per_minute=1)
    by_tokens = await admin.limited(tokens_per_minute=20)
    seen = []
    for key in (by_requests, by_tokens):
        async with sdk(served.url, key.secret) as (client, _):
            await client.chat.completions.create(**chat())
            with pytest.raises(RateLimitError) as caught:
                await client.chat.completions.create(**chat())
            seen.append((caught.value.type, caught.value.code, caught.value.param))
            assert key.secret not in str(caught.value)
            assert caught.value.request_id

    assert [("requests", "rate_limit_exceeded", None), ("tokens", "rate_limit_exceeded", None)] == seen


async def test_a_spent_budget_is_raised_without_asking_again(served: Stack, admin: Administration) -> None:
    """One request arrives, and no more: x-should-retry says that waiting is of no use."""
    key = await admin.limited(tokens_per_day=30)
    async with sdk(served.url, key.secret, max_retries=2) as (client, sent):
        caught = await spent(client)

    assert (429, "insufficient_quota", "insufficient_quota") == (caught.status_code, caught.code, caught.type)
    assert 1 == [each.status for each in sent].count(429)
    assert "false" == sent[-1].headers["x-should-retry"]


async def test_spent_dollars_are_raised_without_asking_again(served: Stack, admin: Administration) -> None:
    key = await admin.limited(usd_per_month=0.001)
    async with sdk(served.url, key.secret, max_retries=2) as (client, sent):
        caught = await spent(client)
    answered = [each.status for each in sent].count(200)
    costs = [record["cost_usd"] for record in await admin.records(key.team, answered)]

    assert "insufficient_quota" == caught.code
    assert [200] * answered + [429] == [each.status for each in sent]
    assert [pytest.approx(10 * 10e-6 + 8 * 30e-6)] * answered == costs
    assert 0.0005 < sum(costs) < 0.001 + costs[-1]


async def spent(client: AsyncOpenAI) -> RateLimitError:
    """Ask until the budget is."""
    for _ in range(20):
        try:
            await client.chat.completions.create(**chat())
        except RateLimitError as error:
            return error
    raise AssertionError("there is no end to the budget")


async def test_a_request_that_can_never_fit_is_raised_at_once(served: Stack, admin: Administration) -> None:
    """It says what to lower; a smaller one is answered."""
    key = await admin.limited(tokens_per_minute=200)
    async with sdk(served.url, key.secret, max_retries=2) as (client, sent):
        with pytest.raises(RateLimitError, match="Lower max_tokens"):
            await client.chat.completions.create(**chat(max_tokens=500))
        answer = await client.chat.completions.create(**chat())

    assert [429, 200] == [each.status for each in sent]
    assert answer.choices[0].message.content
