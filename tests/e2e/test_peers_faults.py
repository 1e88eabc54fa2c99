"""What other gateways were seen to do wrong with limits, keys and failing workers, and that this one does not."""

import asyncio
import base64
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from openai import RateLimitError, UnprocessableEntityError

from gateway.protocol.endpoints.endpoint import FORM
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.headers import SESSION_HEADERS, SESSION_TOKEN_HEADER
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.e2e.governed import Administration, MadeKey, administration, bearer, chat, governed, sdk
from tests.e2e.stack import Stack
from tests.e2e.stack import quick as quickly
from tests.fuzz.bodies import FORM_BODY, FORM_TYPE, VALID

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLOW = SimulatorOptions(port=0, tpot_ms=20)
LONG_ANSWER: dict[str, Any] = {"max_tokens": 5000, "ignore_eos": True}
"""Takes a hundred seconds of a `SLOW` worker: one that is free before was asked to stop."""
MARK = "marked-by-a-client"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quick() -> AsyncIterator[Stack]:
    async with governed(1) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slow() -> AsyncIterator[Stack]:
    async with governed(1, options=SLOW) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def served(quick: Stack) -> Stack:
    """A gateway with one worker that is well and remembers nothing; one for the file, as its start takes a while."""
    return await afresh(quick)


@pytest_asyncio.fixture(loop_scope="module")
async def slowly(slow: Stack) -> Stack:
    return await afresh(slow)


@pytest.fixture
def admin(served: Stack) -> Administration:
    return administration(served)


@pytest.fixture
def slow_admin(slowly: Stack) -> Administration:
    return administration(slowly)


async def afresh(started: Stack) -> Stack:
    await started.fault(started.workers[0], "none")
    await started.http.post(f"{started.workers[0]}/control/reset")
    return started


async def ask(served: Stack, key: MadeKey, **fields: Any) -> httpx.Response:
    return await served.http.post("/v1/chat/completions", json=chat(**fields), headers=key.headers)


async def post(served: Stack, path: str, body: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
    if ENDPOINTS[path].media == FORM:
        form = {"content-type": FORM_TYPE.decode(), **headers}
        return await served.http.post(path, content=FORM_BODY, headers=form)
    return await served.http.post(path, json={"model": "tiny", **body}, headers=headers)


async def until(served: Stack, states: dict[str, int]) -> None:
    """Wait until the worker's requests are in these states."""
    async with asyncio.timeout(60):
        while True:
            entries = await served.served(served.workers[0])
            if states == {state: [each["state"] for each in entries].count(state) for state in states}:
                return
            await asyncio.sleep(0.02)


async def begin_and_leave(served: Stack, key: MadeKey, *, stream: bool) -> None:
    """Ask for a long answer and go away while it is made."""
    asking = asyncio.ensure_future(ask(served, key, stream=stream, **LONG_ANSWER))
    before = len(await served.served(served.workers[0]))
    async with asyncio.timeout(60):
        while len(await served.served(served.workers[0])) <= before:
            assert not asking.done(), asking.result().text
            await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait([asking])


# ---- what a refusal says


async def test_a_wait_for_tokens_is_true(served: Stack, admin: Administration) -> None:
    """A bucket of 100 tokens of which 20 come back each second: no minute, and after the wait there is room.

    A fixed window says 60 s whenever it is asked.
    """
    key = await admin.limited(tokens_per_minute=1200)
    filling = await ask(served, key, max_tokens=90, ignore_eos=True)
    refused = await ask(served, key, max_tokens=30)
    wait_s = int(refused.headers["retry-after-ms"]) / 1000
    await asyncio.sleep(wait_s)
    admitted = await ask(served, key, max_tokens=30)

    assert (200, 429, 200) == (filling.status_code, refused.status_code, admitted.status_code)
    assert 0 < wait_s < 3
    assert wait_s <= int(refused.headers["retry-after"]) < wait_s + 1


async def test_a_code_is_a_word_or_nothing(served: Stack, admin: Administration) -> None:
    """Never the status as a text, whichever refusal it is, and always with message, type, param and request id."""
    key = await admin.limited(requests_per_minute=1)
    await ask(served, key)
    forbidden = await admin.key(await admin.team(models=[]))
    http = served.http
    refusals = {
        400: await http.post("/v1/chat/completions", content=b"{", headers=key.headers | JSON),
        401: await http.post("/v1/chat/completions", json=chat()),
        403: await ask(served, forbidden),
        404: await ask(served, key, model="gpt-9"),
        405: await http.get("/v1/chat/completions", headers=key.headers),
        415: await http.post("/v1/chat/completions", content=b"{}", headers=key.headers | {"content-type": "text/csv"}),
        429: await ask(served, key),
    }

    for status, response in refusals.items():
        error = response.json()["error"]
        assert status == response.status_code, response.text
        assert {"message", "type", "param", "code"} == error.keys()
        assert error["code"] is None or error["code"].replace("_", "").isalpha(), error
        assert response.headers["x-request-id"]


JSON = {"content-type": "application/json"}


async def test_a_request_without_a_key_is_reported_so(served: Stack) -> None:
    """401 on every path that is served, in the shape of its API, and before the body is looked at."""
    for path in ENDPOINTS:
        response = await served.http.post(path, content=b"{", headers=JSON)
        assert (401, "Bearer") == (response.status_code, response.headers["www-authenticate"]), path
        assert "No API key was given" in response.json()["error"]["message"]
    for path in ("/v1/models", "/v1/models/tiny", "/v1/responses/resp_1", "/v1/usage"):
        response = await served.http.get(path)
        assert (401, "invalid_api_key") == (response.status_code, response.json()["error"]["code"]), path
    assert [] == await served.served(served.workers[0])


# ---- what is counted


async def test_what_the_caller_asks_for_is_what_the_worker_gets(served: Stack, admin: Administration) -> None:
    """Nothing is cut short to fit into a limit: not what was asked for, not what was left to the worker."""
    silent = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    bodies = [silent, chat(max_tokens=1900), chat(max_tokens=30_000), chat(max_completion_tokens=70)]
    for body in bodies:
        fresh = await admin.limited(tokens_per_minute=2000)
        response = await served.http.post("/v1/chat/completions", json=body, headers=fresh.headers)
        assert 200 == response.status_code, response.text

    entries = await served.served(served.workers[0])
    assert bodies == [json.loads(base64.b64decode(entry["body"])) for entry in entries]


async def test_a_small_limit_lets_a_first_request_in(served: Stack, admin: Administration) -> None:
    """Ten tokens at once of a hundred a minute: one of sixty passes the full bucket and leaves a debt."""
    key = await admin.limited(tokens_per_minute=100)
    first = await ask(served, key, max_tokens=50, ignore_eos=True)
    second = await ask(served, key, max_tokens=1)

    assert (200, 429) == (first.status_code, second.status_code)
    assert 20 < int(second.headers["retry-after"]) <= 60


@pytest.mark.parametrize("limits", [{"tokens_per_minute": 100}, {"tokens_per_day": 100}, {"usd_per_month": 0.01}])
async def test_a_small_limit_lets_a_request_in_that_names_no_length(
    served: Stack, admin: Administration, limits: dict[str, float]
) -> None:
    """What is expected of its answer is a guess, which refuses no one for ever; the worker learns of no length."""
    key = await admin.limited(**limits)
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    first = await served.http.post("/v1/chat/completions", json=body, headers=key.headers)
    (entry,) = await served.served(served.workers[0])

    assert 200 == first.status_code, first.text
    assert body == json.loads(base64.b64decode(entry["body"]))


async def test_a_second_field_for_the_length_opens_no_gap(served: Stack, admin: Administration) -> None:
    key = await admin.limited(tokens_per_day=100)
    lengths = {"max_tokens": 1, "max_completion_tokens": 400, "ignore_eos": True}
    swapped = {"max_tokens": 400, "max_completion_tokens": 1, "ignore_eos": True}
    chats = await ask(served, key, **lengths)
    text = await post(served, "/v1/completions", {"prompt": "hi", **swapped}, key.headers)
    small = await post(served, "/v1/completions", {"prompt": "hi", **lengths}, key.headers)

    assert (429, 429, 200) == (chats.status_code, text.status_code, small.status_code)
    assert 1 == small.json()["usage"]["completion_tokens"]


async def test_many_answers_to_one_request_are_counted_before(served: Stack, admin: Administration) -> None:
    """Those to each of its prompts, and `n` of each."""
    key = await admin.limited(tokens_per_day=100)
    prompts = {"prompt": ["hi"] * 20, "max_tokens": 10, "ignore_eos": True}
    many = await post(served, "/v1/completions", prompts, key.headers)
    choices = await ask(served, key, n=20, max_tokens=10, ignore_eos=True)

    assert [429, 429] == [many.status_code, choices.status_code]
    assert [] == await served.served(served.workers[0])


async def test_streams_are_counted(served: Stack, admin: Administration) -> None:
    """Also if they do not ask for usage, and without showing it then."""
    key = await admin.limited(tokens_per_minute=600)
    stream = await ask(served, key, max_tokens=50, ignore_eos=True, stream=True)
    refused = await ask(served, key, max_tokens=50, stream=True)
    (record,) = await admin.records(key.team)

    assert (200, 429) == (stream.status_code, refused.status_code)
    assert '"usage":{' not in stream.text
    assert ("ok", 10, 50) == (record["outcome"], record["prompt_tokens"], record["completion_tokens"])
    assert pytest.approx(10 * 10e-6 + 50 * 30e-6) == record["cost_usd"]


@pytest.mark.parametrize("stream", [False, True])
async def test_asking_at_once_opens_no_gap(served: Stack, admin: Administration, stream: bool) -> None:
    """60 requests of 40 tokens on a bucket of 200: what was used is at most what there was, however they interleave."""
    key = await admin.limited(tokens_per_minute=2000)
    started = time.monotonic()
    fields = {"max_tokens": 30, "ignore_eos": True, "stream": stream}
    answers = await asyncio.gather(*(ask(served, key, **fields) for _ in range(60)))
    elapsed_s = time.monotonic() - started
    admitted = [answer.status_code for answer in answers].count(200)
    used = sum(each["prompt_tokens"] + each["completion_tokens"] for each in await admin.records(key.team, admitted))

    assert {200, 429} == {answer.status_code for answer in answers}
    assert 40 * admitted == used
    # Before anything is known of it, a prompt is estimated: 4 bytes for a token, where the worker counts its template.
    assert used <= (200 + elapsed_s * 2000 / 60) * 40 / 32


async def test_places_are_free_again_after_callers_have_left(slowly: Stack, slow_admin: Administration) -> None:
    """Three at once, and ten that leave in the middle, streaming or not: three fit again, and a fourth does not."""
    key = await slow_admin.limited(concurrent=3)
    for i in range(10):
        await begin_and_leave(slowly, key, stream=i % 2 == 0)
        await until(slowly, {"running": 0})
    running = [asyncio.ensure_future(ask(slowly, key, **LONG_ANSWER)) for _ in range(3)]
    await until(slowly, {"running": 3})
    fourth = await ask(slowly, key)
    for each in running:
        each.cancel()
    await asyncio.wait(running)

    assert (429, "requests") == (fourth.status_code, fourth.json()["error"]["type"])
    records = await slow_admin.records(key.team, 13)
    assert ["aborted"] * 13 == [record["outcome"] for record in records]


async def test_no_endpoint_is_outside_of_the_limits(served: Stack, admin: Administration) -> None:
    """A key with one request a minute has one, whichever it is; what the worker does not have costs nothing."""
    seen = {}
    for path in ENDPOINTS:
        key = await admin.limited(requests_per_minute=1)
        body = VALID[path][0] if path in VALID else {}
        seen[path] = tuple([(await post(served, path, body, key.headers)).status_code for _ in range(2)])

    limited = {path for path, statuses in seen.items() if statuses == (200, 429)}
    assert {(200, 429), (404, 404)} == set(seen.values())
    assert {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings"} < limited
    assert {"/tokenize", "/detokenize", "/v1/messages/count_tokens", "/v1/rerank", "/v1/score"} < limited


PROMPT = "Why is the sky blue, and at sunset red? " * 10
GENERATING: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": PROMPT, "max_tokens": 16},
    "/v1/responses": {"input": PROMPT, "max_output_tokens": 16},
    "/v1/messages": {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 16},
    "/v1/embeddings": {"input": PROMPT},
}


@pytest.mark.parametrize("path", GENERATING)
@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_of_every_api_are_counted(served: Stack, admin: Administration, path: str, stream: bool) -> None:
    key = await admin.limited(tokens_per_minute=300)
    body = GENERATING[path] | ({"stream": True} if stream and "embed" not in path else {})
    first = await post(served, path, body, key.headers)
    second = await post(served, path, body, key.headers)
    (record,) = await admin.records(key.team)
    (entry,) = await served.served(served.workers[0])

    assert (200, 429) == (first.status_code, second.status_code), second.text
    assert entry["prompt_tokens"] == record["prompt_tokens"] > 80
    assert (0 if "embed" in path else 16) == record["completion_tokens"]
    assert record["cost_usd"] > 0


async def test_cached_tokens_weigh_less(served: Stack, admin: Administration) -> None:
    """The same prompt again takes a tenth of its cached tokens from the day's budget, and is paid as cached."""
    key = await admin.limited(tokens_per_day=100_000)
    for _ in range(2):
        assert 200 == (await ask(served, key, text=PROMPT * 5)).status_code
    cold, warm = await admin.records(key.team, 2)
    (limit,) = (await served.http.get("/v1/usage", headers=key.headers)).json()["limits"]

    prompt, cached = warm["prompt_tokens"], warm["cached_tokens"]
    assert (0, prompt) == (cold["cached_tokens"], cold["prompt_tokens"])
    assert cached > 0.9 * prompt > 400
    assert pytest.approx(100_000 - (prompt + 8) - (prompt - 0.9 * cached + 8)) == limit["remaining"]
    assert pytest.approx(cached * 9e-6) == cold["cost_usd"] - warm["cost_usd"] == warm["saved_usd"]


async def test_what_an_aborted_stream_used_is_booked(slowly: Stack, slow_admin: Administration) -> None:
    """The prompt, and what was streamed; not nothing, and not the 5,000 tokens that were asked for."""
    key = await slow_admin.limited(tokens_per_day=100_000)
    body = chat(stream=True, **LONG_ANSWER)
    events = 0
    async with slowly.http.stream("POST", "/v1/chat/completions", json=body, headers=key.headers) as response:
        async for line in response.aiter_lines():
            events += line.startswith("data: ")
            if events == 6:
                break
    (record,) = await slow_admin.records(key.team)
    await until(slowly, {"running": 0, "aborted": 1})
    (limit,) = (await slowly.http.get("/v1/usage", headers=key.headers)).json()["limits"]

    used = record["prompt_tokens"] + record["completion_tokens"]
    assert "aborted" == record["outcome"]
    assert 5 <= record["completion_tokens"] < 2000
    assert record["cost_usd"] > record["completion_tokens"] * 30e-6
    assert pytest.approx(100_000 - used, abs=1) == limit["remaining"]


async def test_a_caller_that_leaves_stops_the_worker(slowly: Stack, slow_admin: Administration) -> None:
    """Also if it does not stream; the request is booked as aborted."""
    key = await slow_admin.key()
    for stream in (False, True):
        await begin_and_leave(slowly, key, stream=stream)
    await until(slowly, {"running": 0, "aborted": 2})

    assert ["aborted"] * 2 == [record["outcome"] for record in await slow_admin.records(key.team, 2)]


async def test_another_limit_counts_with_the_next_request(served: Stack, admin: Administration) -> None:
    """A higher budget opens, a lower one closes; what was used stays used."""
    key = await admin.limited(tokens_per_day=20)
    reported: dict[tuple[int, int | None], int] = {}
    for budget in (20, 20, 40, 36, None, 50):
        await admin.done("PATCH", f"/teams/{key.team}", {"limits": {"tokens_per_day": budget}})
        reported[len(reported), budget] = (await ask(served, key, max_tokens=8)).status_code

    assert {(0, 20): 200, (1, 20): 429, (2, 40): 200, (3, 36): 429, (4, None): 200, (5, 50): 200} == reported


# ---- what fails


async def test_a_dead_worker_costs_no_seconds() -> None:
    """The first requests meet it, before any check has: connection refused, next worker, no pause and no retry."""
    async with AsyncExitStack() as exits, serving(quickly()) as live:
        dying = await exits.enter_async_context(serving(quickly()))
        workers = [{"url": dying, "id": "dying"}, {"url": live, "id": "live"}]
        model = {"strategy": "round_robin", "workers": workers}
        health = {"interval_s": 600, "metrics_interval_s": 600}
        async with governed(0, model=model, health=health, breaker={"failures": 1000}) as served:
            key = await administration(served).key()
            await exits.aclose()
            answers = [await ask(served, key, text=f"{i} {PROMPT}", stream=i < 2) for i in range(4)]
            lines = await served.lines(4)

    assert [(200, "live")] * 4 == [(each.status_code, each.headers["x-warmgate-worker"]) for each in answers]
    assert 2 in [line["attempts"] for line in lines]
    assert max(line["duration_ms"] for line in lines) < 4000  # LiteLLM: 5,000 and more, every time


@pytest.mark.parametrize("status", [429, 503])
async def test_an_overloaded_worker_is_reported_at_once(served: Stack, admin: Administration, status: int) -> None:
    """With retry-after, in a header that SDKs read, after one attempt; and nothing is charged."""
    key = await admin.limited(requests_per_minute=1)
    await served.fault(served.workers[0], "status", status=status)
    refused = await ask(served, key)
    await served.fault(served.workers[0], "none")
    answered = await ask(served, key)

    assert (status, "2") == (refused.status_code, refused.headers["retry-after"])
    assert ("upstream_error", "upstream_refused") == (refused.json()["error"]["type"], refused.json()["error"]["code"])
    assert 200 == answered.status_code
    assert ["failed", "finished"] == [each["state"] for each in await served.served(served.workers[0])]


async def test_what_a_worker_cannot_process_is_reported_as_422(served: Stack, admin: Administration) -> None:
    """Not as 200 with nothing in it."""
    key = await admin.limited(requests_per_minute=1)
    await served.fault(served.workers[0], "status", status=422, count=1)
    async with sdk(served.url, key.secret) as (client, _):
        with pytest.raises(UnprocessableEntityError) as caught:
            await client.chat.completions.create(**chat())
        answer = await client.chat.completions.create(**chat())
        with pytest.raises(RateLimitError):
            await client.chat.completions.create(**chat())

    assert caught.value.request_id
    assert answer.choices[0].message.content


@pytest.mark.parametrize("stream", [False, True])
async def test_where_a_worker_lives_is_not_reported(stream: bool) -> None:
    """With an id it is called by that, in headers and bodies, whatever goes wrong with it."""
    async with governed(1) as there:
        model = {"workers": [{"url": there.workers[0], "id": "w-1"}]}
        async with governed(0, model=model) as served:
            key = await administration(served).key()
            reported = []
            for status in (400, 422, 429, 500, 503):
                reported.append(await ask(served, key, stream=stream))
                await served.fault(there.workers[0], "status", status=status)
                reported.append(await ask(served, key, stream=stream))
                await served.fault(there.workers[0], "none")
            for mode in ("abort_mid_stream", "shutting_down", "error_event", "refuse"):
                await served.fault(there.workers[0], mode, count=1)
                reported.append(await ask(served, key, stream=stream))

    port = there.workers[0].rpartition(":")[2]
    assert {"w-1"} == {each.headers["x-warmgate-worker"] for each in reported if "x-warmgate-worker" in each.headers}
    for response in reported:
        assert port not in f"{response.headers} {response.text}", response.text
        assert "127.0.0.1" not in f"{response.headers} {response.text}"


async def test_a_locked_database_stops_no_one_who_is_known(tmp_path: Path) -> None:
    """Requests are let in and answered; the ledger gets them when it is free again. Who is not known may be new."""
    file = tmp_path / "warmgate.db"
    async with governed(1, store={"url": f"sqlite:///{file}"}) as served:
        admin = administration(served)
        key = await admin.key()
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            locked = [await ask(served, key) for _ in range(3)]
            async with asyncio.timeout(60):
                while (unknown := await ask(served, MadeKey("k", "t", "wg-unknown-0123456789"))).status_code == 401:
                    await asyncio.sleep(0.05)
            late = await ask(served, key)
            other.execute("ROLLBACK")
        records = await admin.records(key.team, 4)

    assert [200] * 4 == [answer.status_code for answer in [*locked, late]]
    assert (503, "store_unavailable") == (unknown.status_code, unknown.json()["error"]["code"])
    assert "1" == unknown.headers["retry-after"]
    assert [18] * 4 == [record["prompt_tokens"] + record["completion_tokens"] for record in records]


# ---- what is reported to others


async def test_a_response_is_kept_for_the_team_that_asked(served: Stack, admin: Administration) -> None:
    """Others cannot read it, go on from it, or delete it: for them there is not one."""
    own, other = await admin.key(), await admin.key()
    body: dict[str, Any] = {"model": "tiny", "input": "hi", "max_output_tokens": 5, "store": True}
    made = await served.http.post("/v1/responses", json=body, headers=own.headers)
    path, further = f"/v1/responses/{made.json()['id']}", body | {"previous_response_id": made.json()["id"]}
    reported = {}
    for name, headers in (("other", other.headers), ("own", own.headers)):
        reported[name] = [
            (await served.http.get(path, headers=headers)).status_code,
            (await served.http.post("/v1/responses", json=further, headers=headers)).status_code,
            (await served.http.delete(path, headers=headers)).status_code,
        ]

    assert [404, 404, 404] == reported["other"]
    assert [200, 200, 405] == reported["own"]  # the simulated worker does not delete, and says so itself


async def test_clients_choose_no_label_of_a_metric(served: Stack, admin: Administration) -> None:
    """Names of models, users, sessions, paths, ids and keys that are made up make no time series."""
    key = await admin.key(project=None)
    http = served.http
    headers = key.headers | dict.fromkeys(("x-end-user", "x-request-id", "user-agent"), MARK)
    headers |= {name.decode(): MARK for name in (*SESSION_HEADERS, SESSION_TOKEN_HEADER)}
    body = chat(user=MARK, safety_identifier=MARK, prompt_cache_key=MARK, metadata={"m": MARK}, cache_salt=MARK)
    statuses = [
        (await http.post("/v1/chat/completions", json=body, headers=headers)).status_code,
        (await http.post("/v1/chat/completions", json=body | {"model": MARK}, headers=headers)).status_code,
        (await http.post("/v1/chat/completions", json=body, headers=bearer(f"wg-{MARK}-0123456789"))).status_code,
        (await http.get(f"/v1/{MARK}", headers=headers)).status_code,
        (await http.request("PROPFIND", f"/v1/models/{MARK}", headers=headers)).status_code,
    ]
    (record,) = await admin.records(key.team)
    exposition = (await http.get("/metrics")).text

    assert [200, 404, 401, 404, 405] == statuses
    assert (MARK, MARK) == (record["user"], record["request_id"])
    assert MARK not in exposition.lower()
    assert "propfind" not in exposition.lower()
    assert key.secret not in exposition
    assert key.id not in exposition
    assert f'team="{key.team}"' in exposition
