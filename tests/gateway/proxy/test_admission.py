"""Admission of requests, and the usage that they are charged for."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.app.tenancy import Tenancy
from routing.booking import Ending, Outcome
from tests.fakes.backends import Answers, BreaksAfter, Fake, Hangs, Refuses, Streams
from tests.gateway.asgi import Caller
from tests.gateway.examples import CHAT, CHAT_STREAM, DONE, HELLO, USAGE, WHOLE, WORLD, a_model
from tests.gateway.proxy.stage import Stage
from tests.gateway.tenancy_examples import AUTHORIZATION, a_team, a_tenancy, at_work, booked
from tests.routing.examples import a_request, book

Headers = list[tuple[bytes, bytes]]
KEY: Headers = [AUTHORIZATION]


@pytest.fixture
async def blue() -> AsyncIterator[Tenancy]:
    """Return a tenancy with one team that has a key and no limits."""
    async with at_work(a_tenancy(a_team())) as tenancy:
        yield tenancy


def a_stage(tenancy: Tenancy, *workers: Fake, **model: Any) -> Stage:
    return Stage(a_model(*workers, **model), tenancy=tenancy)


def code_of(caller: Caller) -> str:
    code: str = json.loads(caller.body)["error"]["code"]
    return code


async def test_usage_is_recorded_for_the_team(blue: Tenancy) -> None:
    """The ledger has the engine's counts, the public id of the key, and the gateway's times."""
    stage = a_stage(blue, Answers(200, WHOLE))
    await stage.ask(CHAT, headers=[*KEY, (b"x-end-user", b"u-1"), (b"x-request-id", b"r-1")])
    (record,) = await booked(blue, 1)

    assert ("r-1", "blue", "ci", "u-1") == (record.request_id, record.team, record.key, record.user)
    assert ("tiny", "tiny", "a", "ok", 200) == (
        record.model_asked,
        record.model,
        record.backend,
        record.outcome,
        record.status,
    )
    assert (7, 0, 2) == (record.prompt_tokens, record.cached_tokens, record.completion_tokens)
    assert ("blue", "ci") == (stage.line["team"], stage.line["key"])


@pytest.mark.parametrize("second", [{"headers": [(b"x-end-user", b"bob")]}, {"raw": b'"user":"bob",'}])
async def test_each_end_user_has_limits(second: dict[str, Any]) -> None:
    """The header, or else the body, names the end user."""
    async with at_work(a_tenancy(a_team(user_limits={"requests_per_minute": 1}))) as tenancy:
        stage = a_stage(tenancy, Answers(200, WHOLE))
        alice: Headers = [*KEY, (b"x-end-user", b"alice")]
        answers = [await stage.ask(CHAT, headers=alice), await stage.ask(CHAT, headers=alice)]
        raw = CHAT.replace(b"{", b"{" + second.get("raw", b""), 1)
        answers.append(await stage.ask(raw, headers=[*KEY, *second.get("headers", [])]))
        unnamed = [await stage.ask(CHAT, headers=KEY), await stage.ask(CHAT, headers=KEY)]

    assert [200, 429, 200] == [each.status for each in answers]
    assert [200, 429] == [each.status for each in unnamed]
    assert "Rate limit reached for end user 'alice' on requests per min (RPM)" in answers[1].body.decode()
    assert "Rate limit reached for requests without an end user on requests per min" in unnamed[1].body.decode()


async def test_each_session_has_limits() -> None:
    async with at_work(a_tenancy(a_team(session_limits={"requests_per_minute": 1}))) as tenancy:
        stage = a_stage(tenancy, Answers(200, WHOLE))
        names = (b"s-1", b"s-1", b"s-2")
        answers = [await stage.ask(CHAT, headers=[*KEY, (b"x-claude-code-session-id", name)]) for name in names]
        without = [await stage.ask(CHAT, headers=KEY) for _ in range(2)]

    assert [200, 429, 200] == [each.status for each in answers]
    assert [200, 200] == [each.status for each in without]
    assert "Rate limit reached for session 's-1' on requests per min (RPM)" in answers[1].body.decode()


async def test_long_names_of_end_users_stay_apart() -> None:
    async with at_work(a_tenancy(a_team(user_limits={"requests_per_minute": 1}))) as tenancy:
        stage = a_stage(tenancy, Answers(200, WHOLE))
        names = (b"u" * 400, b"u" * 399)
        answers = [await stage.ask(CHAT, headers=[*KEY, (b"x-end-user", name)]) for name in names]

    assert [200, 200] == [each.status for each in answers]


async def test_a_stream_is_charged_by_the_usage_at_its_end(blue: Tenancy) -> None:
    await a_stage(blue, Streams(HELLO, WORLD, USAGE, DONE)).ask(CHAT_STREAM, headers=KEY)
    (record,) = await booked(blue, 1)

    assert ("ok", 7, 2) == (record.outcome, record.prompt_tokens, record.completion_tokens)


async def test_an_aborted_stream_is_charged_by_its_events(blue: Tenancy) -> None:
    """One token for each event, and the estimated prompt: the engine's count would come at the end."""
    stage = a_stage(blue, Hangs(HELLO, WORLD))
    caller = Caller(CHAT_STREAM, headers=KEY)
    async with stage.serving(caller) as task:
        await caller.got_body.wait()
        caller.leave()
        await task
    (record,) = await booked(blue, 1)

    assert ("aborted", 2) == (record.outcome, record.completion_tokens)
    assert 0 < record.prompt_tokens < 10


@pytest.mark.parametrize(
    ("after_s", "body", "charged"),
    [
        (2.0, {}, 50),
        (2.0, {"n": 3}, 150),
        (100.0, {"max_tokens": 200}, 200),
        (0.0, {"max_tokens": 200}, 0),
    ],
    ids=["by the time", "of each answer", "no more than was asked for", "at once"],
)
async def test_an_aborted_whole_answer_is_charged_by_the_rate_of_its_worker(
    blue: Tenancy, after_s: float, body: dict[str, Any], charged: int
) -> None:
    """At 40 ms a token; the log marks it as an estimate."""
    worker = Hangs()
    stage = a_stage(blue, worker)
    fleet = stage.model.fleet
    booking = book(fleet, a_request("x" * 10), 0.0)
    fleet.bookings.first_byte(booking, 1.0)
    fleet.bookings.release(booking, Outcome(Ending.ANSWERED, 160, 0, 101), 5.0)
    caller = Caller(json.dumps({**json.loads(CHAT), **body}).encode(), headers=KEY)
    async with stage.serving(caller) as task:
        await worker.hanging.wait()
        stage.clock.now += after_s
        caller.leave()
        await task
    (record,) = await booked(blue, 1)

    assert ("aborted", charged) == (record.outcome, record.completion_tokens)
    assert charged == stage.line["estimated_tokens"]


async def test_an_aborted_whole_answer_of_an_unknown_rate_is_charged_as_expected(blue: Tenancy) -> None:
    worker = Hangs()
    caller = Caller(CHAT, headers=KEY)
    async with a_stage(blue, worker).serving(caller) as task:
        await worker.hanging.wait()
        caller.leave()
        await task

    assert [512] == [record.completion_tokens for record in await booked(blue, 1)]


async def test_failed_requests_are_not_charged(blue: Tenancy) -> None:
    """Neither if no worker answers, nor if one breaks before the caller has anything."""
    await a_stage(blue, Refuses()).ask(CHAT, headers=KEY)
    await a_stage(blue, BreaksAfter(0, HELLO)).ask(CHAT_STREAM, headers=KEY)

    assert [("failed", 0, 0), ("failed", 0, 0)] == [
        (each.outcome, each.prompt_tokens, each.completion_tokens) for each in await booked(blue, 2)
    ]


async def test_a_broken_stream_is_charged_for_its_events(blue: Tenancy) -> None:
    """The caller has them, and an error that says the stream is incomplete."""
    await a_stage(blue, BreaksAfter(2, HELLO, WORLD)).ask(CHAT_STREAM, headers=KEY)
    (record,) = await booked(blue, 1)

    assert ("failed", 2) == (record.outcome, record.completion_tokens)
    assert 0 < record.prompt_tokens < 10


async def test_a_failure_releases_its_reservation() -> None:
    """A limit of one request a minute has room again afterwards."""
    async with at_work(a_tenancy(a_team(limits={"requests_per_minute": 1}))) as tenancy:
        failed = await a_stage(tenancy, Refuses()).ask(CHAT, headers=KEY)
        answered = await a_stage(tenancy, Answers(200, WHOLE)).ask(CHAT, headers=KEY)
        refused = await a_stage(tenancy, Answers(200, WHOLE)).ask(CHAT, headers=KEY)

    assert (503, 200, 429) == (failed.status, answered.status, refused.status)


async def test_concurrent_limits_have_room_again_at_the_end() -> None:
    async with at_work(a_tenancy(a_team(limits={"max_concurrent_requests": 1}))) as tenancy:
        stage = a_stage(tenancy, Hangs(HELLO))
        running, other = Caller(CHAT_STREAM, headers=KEY), Caller(CHAT, headers=KEY)
        async with stage.serving(running) as task:
            await running.got_body.wait()
            await other.call(stage.proxy)
            running.leave()
            await task
        after = await a_stage(tenancy, Answers(200, WHOLE)).ask(CHAT, headers=KEY)

    assert (429, b"1") == (other.status, dict(other.headers)[b"retry-after"])
    assert 200 == after.status


async def test_answers_have_rate_limit_headers() -> None:
    """They are named as OpenAI's; a refusal has retry-after."""
    async with at_work(a_tenancy(a_team(limits={"requests_per_minute": 10}))) as tenancy:
        stage = a_stage(tenancy, *[Answers(200, WHOLE)] * 5)
        first, *_ = [dict((await stage.ask(CHAT, headers=KEY)).headers) for _ in range(5)]
        refused = await stage.ask(CHAT, headers=KEY)

    assert (b"10", b"4", b"6s") == tuple(
        first[b"x-ratelimit-%b-requests" % what] for what in (b"limit", b"remaining", b"reset")
    )
    assert (429, b"6") == (refused.status, dict(refused.headers)[b"retry-after"])
    assert "rate_limit_exceeded" == code_of(refused)


async def test_a_refusal_is_logged_with_the_limit_that_refused() -> None:
    async with at_work(a_tenancy(a_team(limits={"requests_per_minute": 1}))) as tenancy:
        stage = a_stage(tenancy, Answers(200, WHOLE))
        await stage.ask(CHAT, headers=KEY)
        await stage.ask(CHAT, headers=KEY)

    assert [None, "RateLimited"] == [line["error"] for line in stage.lines]


async def test_a_spent_budget_has_openais_error_code() -> None:
    """Its retry-after is the end of the month."""
    async with at_work(a_tenancy(a_team(limits={"tokens_per_day": 1}))) as tenancy:
        caller = await a_stage(tenancy, Answers(200, WHOLE)).ask(CHAT, headers=KEY)

    assert (429, "insufficient_quota") == (caller.status, code_of(caller))
    assert b"false" == dict(caller.headers)[b"x-should-retry"]


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Bearer wrong")], [(b"x-api-key", b"wrong")]])
async def test_without_a_known_key_the_body_is_not_read(blue: Tenancy, headers: Headers) -> None:
    """The body may be large."""
    stage = a_stage(blue, worker := Answers(200, WHOLE))
    caller = await stage.ask(b"not JSON", headers=headers)

    assert (401, "invalid_api_key") == (caller.status, code_of(caller))
    assert b"Bearer" == dict(caller.headers)[b"www-authenticate"]
    assert [] == worker.calls


async def test_a_model_that_is_not_allowed_is_forbidden() -> None:
    async with at_work(a_tenancy(a_team(models=["other"]))) as tenancy:
        caller = await a_stage(tenancy, Answers(200, WHOLE)).ask(CHAT, headers=KEY)

    assert (403, "model_not_allowed") == (caller.status, code_of(caller))


async def test_a_strategy_that_is_not_allowed_is_forbidden() -> None:
    async with at_work(a_tenancy(a_team(strategies=["prefix_aware"]))) as tenancy:
        stage = a_stage(tenancy, Answers(200, WHOLE), allows_strategy_header=True)
        asked = await stage.ask(CHAT, headers=[*KEY, (b"x-warmgate-strategy", b"round_robin")])

    assert (403, "strategy_not_allowed") == (asked.status, code_of(asked))


@pytest.mark.parametrize(("may_fall_back", "expected"), [(True, 200), (False, 503)])
async def test_fallbacks_need_permission(may_fall_back: bool, expected: int) -> None:
    async with at_work(a_tenancy(a_team(fallback=may_fall_back))) as tenancy:
        caller = await a_stage(tenancy, Refuses(), fallback=Answers(200, WHOLE)).ask(CHAT, headers=KEY)

    assert expected == caller.status


async def test_an_isolated_team_has_a_salt_of_its_own() -> None:
    """The worker gets it, so that its cache is separated too; the caller's own salt is added."""
    async with at_work(a_tenancy(a_team(isolated_cache=True))) as tenancy:
        stage = a_stage(tenancy, worker := Answers(200, WHOLE))
        await stage.ask(CHAT, headers=KEY)
        await stage.ask(CHAT.replace(b"{", b'{"cache_salt":"mine",', 1), headers=KEY)
    plain, salted = (json.loads(call.body)["cache_salt"] for call in worker.calls)

    assert 43 == len(plain)
    assert f"{plain}.mine" == salted


async def test_keys_go_neither_to_workers_nor_into_the_log(blue: Tenancy) -> None:
    stage = a_stage(blue, worker := Answers(200, WHOLE))
    await stage.ask(CHAT, headers=KEY)
    secret = AUTHORIZATION[1].removeprefix(b"Bearer ")

    assert secret not in b"".join(name + value for name, value in worker.calls[0].headers)
    assert secret not in stage.sink.getvalue()


async def test_an_expired_key_is_named_in_the_log() -> None:
    """Its secret was right, so its owner is known; an unknown key has no owner."""
    async with at_work(a_tenancy(a_team(blocked=True))) as tenancy:
        stage = a_stage(tenancy, Answers(200, WHOLE))
        await stage.ask(CHAT, headers=KEY)
        await stage.ask(CHAT, headers=[(b"authorization", b"Bearer wrong")])

    assert [(401, "blue", "ci"), (401, None, None)] == [
        (line["status"], line["team"], line["key"]) for line in stage.lines
    ]
