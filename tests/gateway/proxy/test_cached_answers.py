"""Kept answers in the life of a request, over ASGI messages and backends without a network."""

import asyncio
import json
from typing import Any

import pytest

from gateway.protocol.usage import Usage
from gateway.proxy.cached_answers import charged
from gateway.proxy.guardrails.counters import GuardrailCounters
from gateway.proxy.guardrails.filter import Action
from gateway.proxy.guardrails.guard import GuardrailRule
from gateway.proxy.guardrails.guards import GuardedModels, ModelGuards
from gateway.tenancy.ledger.price import Price
from tests.fakes.backends import Answers, Refuses, ScriptedReply, Streams
from tests.gateway.asgi import Caller
from tests.gateway.examples import DONE, HELLO, a_model
from tests.gateway.proxy.guardrails.examples import a_filter
from tests.gateway.proxy.response_cache.examples import ALWAYS, COMPLETE, ON_REQUEST, a_response_cache
from tests.gateway.proxy.stage import Stage
from tests.gateway.tenancy_examples import AUTHORIZATION, a_team, a_tenancy, at_work, booked

pytestmark = pytest.mark.interpreted

CACHE = b"x-warmgate-cache"
STOP = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'


def a_chat(**fields: Any) -> bytes:
    body = {"model": "tiny", "temperature": 0, "messages": [{"role": "user", "content": "hello"}], **fields}
    return json.dumps(body).encode()


class Gated(Answers):
    """Answers as soon as the gate is open."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(200, *pieces)
        self.gate = asyncio.Event()

    async def _reply(self) -> ScriptedReply:
        await self.gate.wait()
        return await super()._reply()


async def until_called(worker: Answers, calls: int = 1) -> None:
    while len(worker.calls) < calls:
        await asyncio.sleep(0)


async def test_the_second_request_gets_the_kept_answer() -> None:
    """It has the bytes of the first one, says where it comes from, and needs no worker."""
    worker = Answers(200, COMPLETE)
    stage = Stage(a_model(worker, response_caching=ALWAYS))
    first, second = await stage.ask(a_chat()), await stage.ask(a_chat())

    assert (200, COMPLETE, b"miss") == (first.status, first.body, first.headers[CACHE])
    assert (200, COMPLETE, b"hit; age=0") == (second.status, second.body, second.headers[CACHE])
    assert (b"application/json", b"cache", b"cache") == tuple(
        second.headers[name] for name in (b"content-type", b"x-warmgate-worker", b"x-warmgate-backend")
    )
    assert 1 == len(worker.calls)
    assert ["worker", "cache"] == [line["backend"] for line in stage.lines]
    assert {("tiny", "miss"): 1, ("tiny", "hit"): 1} == stage.cache.results


async def test_nothing_is_kept_for_a_model_without_a_cache() -> None:
    """The header of the request does not matter."""
    worker = Answers(200, COMPLETE)
    stage = Stage(a_model(worker))
    callers = [await stage.ask(a_chat(), headers=[(CACHE, b"use")]) for _ in range(2)]

    assert [False, False] == [CACHE in caller.headers for caller in callers]
    assert (2, 0) == (len(worker.calls), len(stage.cache.store))


async def test_requests_can_opt_in() -> None:
    """If the model asks for that, only requests with the header use the cache."""
    worker = Answers(200, COMPLETE)
    stage = Stage(a_model(worker, response_caching=ON_REQUEST))
    use = [(CACHE, b"use")]
    callers = [await stage.ask(a_chat(), headers=headers) for headers in ([], use, use, [])]

    assert [None, b"miss", b"hit; age=0", None] == [caller.headers.get(CACHE) for caller in callers]
    assert 3 == len(worker.calls)


async def test_requests_can_opt_out_or_refresh() -> None:
    """A refreshed answer replaces the kept one."""
    worker = Answers(200, COMPLETE)
    stage = Stage(a_model(worker, response_caching=ALWAYS))
    modes = (None, b"off", b"refresh", None)
    callers = [await stage.ask(a_chat(), headers=[] if mode is None else [(CACHE, mode)]) for mode in modes]

    assert [b"miss", None, b"miss", b"hit; age=0"] == [caller.headers.get(CACHE) for caller in callers]
    assert 3 == len(worker.calls)


async def test_an_unknown_mode_is_refused() -> None:
    """The error names the header."""
    stage = Stage(a_model(Answers(200, COMPLETE), response_caching=ALWAYS))
    caller = await stage.ask(a_chat(), headers=[(CACHE, b"yes")])

    assert (400, "x-warmgate-cache") == (caller.status, caller.json["error"]["param"])


@pytest.mark.parametrize("fields", [{"temperature": 1}, {"tools": [{"type": "function", "function": {"name": "f"}}]}])
async def test_other_requests_are_not_cached(fields: dict[str, Any]) -> None:
    """They are counted as uncacheable."""
    worker = Answers(200, COMPLETE)
    stage = Stage(a_model(worker, response_caching=ALWAYS))
    for _ in range(2):
        await stage.ask(a_chat(**fields))

    assert 2 == len(worker.calls)
    assert {("tiny", "uncacheable"): 2} == stage.cache.results


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, COMPLETE.replace(b'"stop"', b'"length"')), (400, b'{"error":{"message":"no"}}'), (200, b"{}")],
)
async def test_errors_and_cut_answers_are_not_kept(status: int, body: bytes) -> None:
    """The next request asks the worker again."""
    worker = Answers(status, body)
    stage = Stage(a_model(worker, response_caching=ALWAYS))
    for _ in range(2):
        await stage.ask(a_chat())

    assert (2, 0, 0) == (len(worker.calls), len(stage.cache.store), stage.cache.flights)


async def test_answers_of_fallbacks_are_not_kept() -> None:
    """Another model computed them."""
    fallback = Answers(200, COMPLETE)
    fallback.id = "bedrock:x"
    stage = Stage(a_model(Refuses(), fallback=fallback, response_caching=ALWAYS))
    for _ in range(2):
        assert 200 == (await stage.ask(a_chat())).status

    assert (2, 0) == (len(fallback.calls), len(stage.cache.store))


async def test_answers_in_which_a_guardrail_acted_are_not_kept() -> None:
    """Others are, after the guardrails have seen the request."""
    action: Action = "redact"
    rule = GuardrailRule(a_filter(), action, frozenset({"request", "response"}))
    guarded = GuardedModels()
    guarded.use({"tiny": ModelGuards({"pii": rule}, ["pii"], model="tiny", counters=GuardrailCounters())})
    worker = Answers(200, COMPLETE)
    stage = Stage(a_model(worker, response_caching=ALWAYS), guarded=guarded)
    mail = a_chat(messages=[{"role": "user", "content": "I am ann@example.com"}])
    for body in (mail, mail, a_chat(), a_chat()):
        assert 200 == (await stage.ask(body)).status

    assert 3 == len(worker.calls)
    assert 1 == len(stage.cache.store)


async def test_the_answer_has_the_model_name_of_the_request() -> None:
    """Requests for an alias have answers of their own."""
    worker = Answers(200, COMPLETE.replace(b'{"choices"', b'{"model":"real","choices"'))
    stage = Stage(a_model(worker, upstream_name="real", response_caching=ALWAYS), aliases=["small"])
    callers = [await stage.ask(a_chat(model=name)) for name in ("tiny", "small", "tiny", "small")]

    assert ["tiny", "small", "tiny", "small"] == [caller.json["model"] for caller in callers]
    assert 2 == len(worker.calls)


async def test_a_stream_is_sent_again_in_one_piece() -> None:
    """With the same bytes, but not to callers that do not stream."""
    worker = Streams(HELLO, STOP, DONE)
    stage = Stage(a_model(worker, response_caching=ALWAYS))
    first, second = await stage.ask(a_chat(stream=True)), await stage.ask(a_chat(stream=True))

    assert HELLO + STOP + DONE == first.body
    assert (first.body, b"hit; age=0") == (second.body, second.headers[CACHE])
    assert b"text/event-stream; charset=utf-8" == second.headers[b"content-type"]
    assert 1 == len(worker.calls)


async def test_an_incomplete_stream_is_not_kept() -> None:
    """A stream without a reason to finish may be cut."""
    worker = Streams(HELLO, DONE)
    stage = Stage(a_model(worker, response_caching=ALWAYS))
    for _ in range(2):
        await stage.ask(a_chat(stream=True))

    assert (2, 0) == (len(worker.calls), len(stage.cache.store))


async def test_200_identical_requests_at_once_are_one_call() -> None:
    """All get the same answer."""
    worker = Gated(COMPLETE)
    stage = Stage(a_model(worker, response_caching=ALWAYS))
    callers = [Caller(a_chat()) for _ in range(200)]
    async with asyncio.TaskGroup() as tasks:
        for caller in callers:
            tasks.create_task(caller.call(stage.proxy))
        await until_called(worker)
        worker.gate.set()

    assert [(200, COMPLETE)] * 200 == [(caller.status, caller.body) for caller in callers]
    assert 1 == len(worker.calls)
    assert {("tiny", "miss"): 1, ("tiny", "shared"): 199} == stage.cache.results
    assert 0 == stage.cache.flights


async def test_the_next_request_leads_if_the_caller_of_the_leader_leaves() -> None:
    """The worker gets the request again, for the others."""
    worker = Gated(COMPLETE)
    stage = Stage(a_model(worker, response_caching=ALWAYS))
    leader, *others = [Caller(a_chat()) for _ in range(4)]
    async with stage.serving(leader):
        await until_called(worker)
        async with asyncio.TaskGroup() as tasks:
            for caller in others:
                tasks.create_task(caller.call(stage.proxy))
            await leader.watched.wait()
            leader.leave()
            await until_called(worker, 2)
            worker.gate.set()

    assert not leader.messages
    assert [COMPLETE] * 3 == [caller.body for caller in others]
    assert 2 == len(worker.calls)


async def test_a_waiting_caller_can_leave() -> None:
    """It counts as gone, and the leader goes on."""
    worker = Gated(COMPLETE)
    stage = Stage(a_model(worker, response_caching=ALWAYS))
    leader, waits = Caller(a_chat()), Caller(a_chat())
    async with stage.serving(leader) as leading:
        await until_called(worker)
        async with stage.serving(waits):
            await waits.watched.wait()
            waits.leave()
        worker.gate.set()
        await leading

    assert (COMPLETE, []) == (leader.body, waits.messages)
    assert [(499, "CallerGone"), (200, None)] == [(line["status"], line["error"]) for line in stage.lines]


async def test_waiting_requests_are_sent_if_the_leader_fails() -> None:
    """A request that hangs until its worker is lost does not take the others with it."""
    stage = Stage(a_model(Refuses(), response_caching=ALWAYS), max_attempts=1)
    callers = [Caller(a_chat()) for _ in range(5)]
    async with asyncio.TaskGroup() as tasks:
        for caller in callers:
            tasks.create_task(caller.call(stage.proxy))

    assert {502, 503} >= {caller.status for caller in callers}
    assert 0 == stage.cache.flights


@pytest.mark.parametrize(("share", "prompt", "completion", "usd"), [(0.0, 0, 0, 0.0), (0.5, 4, 1, 6e-6)])
async def test_a_kept_answer_is_charged_for_its_share(share: float, prompt: int, completion: int, usd: float) -> None:
    """The ledger names the cache as the backend."""
    async with at_work(a_tenancy(a_team())) as tenancy:
        price = Price.per_million(input_usd=1, cached_input_usd=None, output_usd=2)
        stage = Stage(
            a_model(Answers(200, COMPLETE), response_caching=ALWAYS, price=price),
            tenancy=tenancy,
            cache=a_response_cache(charge_share=share),
        )
        for _ in range(2):
            assert 200 == (await stage.ask(a_chat(), headers=[AUTHORIZATION])).status
        records = await booked(tenancy, 2)

    assert [("a", 7, 2, 11e-6), ("cache", prompt, completion, usd)] == [
        (r.backend, r.prompt_tokens, r.completion_tokens, r.cost_usd) for r in records
    ]


async def test_a_kept_answer_counts_as_a_request() -> None:
    """A limit of requests refuses it, so that callers cannot read the cache without limits."""
    async with at_work(a_tenancy(a_team(limits={"requests_per_minute": 2}))) as tenancy:
        stage = Stage(a_model(Answers(200, COMPLETE), response_caching=ALWAYS), tenancy=tenancy)
        callers = [await stage.ask(a_chat(), headers=[AUTHORIZATION]) for _ in range(3)]

    assert [200, 200, 429] == [caller.status for caller in callers]


@pytest.mark.parametrize(
    ("limits", "fields", "headers"),
    [
        ("user_limits", {"user": "ann"}, []),
        ("session_limits", {}, [(b"x-session-id", b"s1")]),
    ],
)
async def test_a_kept_answer_counts_for_the_end_user_and_the_session(
    limits: str, fields: dict[str, Any], headers: list[tuple[bytes, bytes]]
) -> None:
    """The cache is no way around their limits."""
    team = {**a_team(), limits: {"requests_per_minute": 2}}
    async with at_work(a_tenancy(team)) as tenancy:
        stage = Stage(a_model(Answers(200, COMPLETE), response_caching=ALWAYS), tenancy=tenancy)
        callers = [await stage.ask(a_chat(**fields), headers=[AUTHORIZATION, *headers]) for _ in range(3)]
        other = await stage.ask(a_chat(), headers=[AUTHORIZATION])

    assert [200, 200, 429, 200] == [caller.status for caller in (*callers, other)]
    assert b"hit; age=0" == other.headers[CACHE]


async def test_teams_do_not_share_answers() -> None:
    """Each asks the worker for itself."""
    worker = Answers(200, COMPLETE)
    green = {"name": "green", "keys": [{"id": "g", "secret": "wg-green-0123456789"}]}
    async with at_work(a_tenancy(a_team(), green)) as tenancy:
        stage = Stage(a_model(worker, response_caching=ALWAYS), tenancy=tenancy)
        keys = [AUTHORIZATION, (b"authorization", b"Bearer wg-green-0123456789")]
        callers = [await stage.ask(a_chat(), headers=[key]) for key in (*keys, *keys)]

    assert [b"miss", b"miss", b"hit; age=0", b"hit; age=0"] == [caller.headers[CACHE] for caller in callers]
    assert 2 == len(worker.calls)


def test_a_share_of_the_usage_is_rounded_up() -> None:
    """An unknown usage costs nothing."""
    assert Usage(4, 1, 2) == charged(Usage(7, 2, 3), 0.5)
    assert Usage(7, 2, 0) == charged(Usage(7, 2, None), 1.0)
    assert Usage(0, 0, 0) == charged(Usage(7, 2, 3), 0.0)
    assert Usage(0, 0, 0) == charged(None, 1.0)
