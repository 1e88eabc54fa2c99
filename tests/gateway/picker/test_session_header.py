"""Headers that decide before the body arrives (`picker.session_header_decides`)."""

import asyncio
from typing import Any

import pytest

from cache_index import WorkerId
from gateway.protocol.headers import Headers
from gateway.protocol.session_identity import engine_session
from gateway.proxy.guardrails.guards import GuardedModels
from routing.strategies.session import weight
from tests.gateway.examples import CHAT, CHAT_STREAM, HELLO, USAGE, a_model, in_flight
from tests.gateway.picker.envoy import BUFFERED, JSON_TYPE, WAIT_S, At, Envoy, picking
from tests.gateway.proxy.stage import Stage
from tests.gateway.tenancy_examples import AUTHORIZATION, a_team, a_tenancy, at_work, booked

ADDRESSES = {"a": "10.0.0.1:8000", "b": "10.0.0.2:8000", "c": "10.0.0.3:8000"}
SESSION = (b"x-session-id", b"one")
ANSWER = b'{"id":"x","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}'
DONE = b"data: [DONE]\n\n"
CUT = 20


def a_stage(*, strategy: str = "session", upstream_name: str | None = None, **how: Any) -> Stage:
    workers = [At(address) for address in ADDRESSES.values()]
    return Stage(a_model(*workers, strategy_name=strategy, upstream_name=upstream_name), **how)


def order(session: str) -> list[str]:
    """Return the workers in the order in which the strategy session tries them."""
    return sorted(ADDRESSES, key=lambda each: weight(session, WorkerId(each)), reverse=True)


async def begun(asked: Envoy, body: bytes = CHAT, headers: Headers | None = None) -> bytes:
    """Send the headers, read the choice, and send *body* in two parts. Return what the worker gets of the first one."""
    await asked.send_head([JSON_TYPE, SESSION, *(headers or [])])
    await asked.read_begun()
    await asked.send_piece(body[:CUT])
    await asked.send_piece(body[CUT:], ended=True)
    return await asked.read_piece()


async def test_envoy_gets_the_workers_after_the_headers() -> None:
    """The body follows as it arrives. Its length is not known yet, because the gateway may add members."""
    length = (b"content-length", b"%d" % len(CHAT))
    stage = a_stage()
    async with picking(stage, session_header_decides=True, max_fallbacks=1) as envoy:
        asked = envoy()
        first = await begun(asked, headers=[length])
        rest = await asked.read_rest()
        assert {order("one")[0]: 1} == {worker: load for worker, load in in_flight(stage.model).items() if load}
        await asked.answered(200, ANSWER)

    assert [ADDRESSES[each] for each in order("one")[:2]] == (asked.destination or "").split(",")
    assert asked.destination == asked.metadata
    assert (CHAT[:CUT], CHAT[CUT:], ANSWER) == (first, rest, asked.answer)
    assert "content-length" in asked.removed
    assert (order("one")[0], 7, 2) == tuple(
        stage.line[name] for name in ("worker", "prompt_tokens", "completion_tokens")
    )


async def test_members_that_the_gateway_adds_are_at_the_end() -> None:
    """The usage of a stream, here. The caller does not see it."""
    async with picking(a_stage(), session_header_decides=True) as envoy:
        asked = envoy()
        first = await begun(asked, CHAT_STREAM)
        rest = await asked.read_rest() or b""
        await asked.answered(200, HELLO, USAGE, DONE, headers=[(b"content-type", b"text/event-stream")])

    assert CHAT_STREAM[:-1] + b',"stream_options":{"include_usage":true}}' == first + rest
    assert HELLO + DONE == asked.answer


async def test_a_subset_applies() -> None:
    best = ADDRESSES[order("one")[0]]
    async with picking(a_stage(), session_header_decides=True) as envoy:
        asked = envoy()
        await asked.send_head([JSON_TYPE, SESSION], subset=[each for each in ADDRESSES.values() if each != best])
        await asked.read_begun()

    assert [ADDRESSES[each] for each in order("one")[1:]] == (asked.destination or "").split(",")


async def test_a_worker_with_an_open_breaker_gets_no_session() -> None:
    stage = a_stage()
    best = next(worker for worker in stage.model.fleet if worker.id == order("one")[0])
    for _ in range(20):
        best.breaker.failed(stage.clock(), sent_at=stage.clock())
    async with picking(stage, session_header_decides=True) as envoy:
        asked = envoy()
        await begun(asked)
        await asked.read_rest()

    assert ADDRESSES[order("one")[1]] == (asked.destination or "").split(",")[0]


class TestTheBodyDecides:
    @pytest.mark.parametrize(
        ("how", "headers"),
        [
            ({}, []),
            ({"strategy": "prefix_aware"}, [SESSION]),
            ({"upstream_name": "org/tiny"}, [SESSION]),
            ({}, [SESSION, (b"x-warmgate-strategy", b"round_robin")]),
            ({}, [SESSION, (b"x-llm-d-model-name-rewrite", b"tiny")]),
        ],
    )
    async def test_envoy_waits_for_it(self, how: Any, headers: Headers) -> None:
        """Nothing is sent to a worker before the whole body has arrived."""
        async with picking(a_stage(**how), session_header_decides=True) as envoy:
            asked = envoy()
            await asked.send_head([JSON_TYPE, *headers])
            await asked.send_piece(CHAT[:CUT])
            await asked.send_piece(CHAT[CUT:], ended=True)
            await asked.read_pick(has_body=True)

        assert b'"hello"' in (asked.body or b"")

    async def test_if_a_guardrail_may_change_it(self) -> None:
        guarded = GuardedModels()
        guarded.use({})
        async with picking(a_stage(guarded=guarded), session_header_decides=True) as envoy:
            asked = await envoy().ask(CHAT[:CUT], CHAT[CUT:], headers=[JSON_TYPE, SESSION])

        assert CHAT == asked.body

    async def test_without_the_setting(self) -> None:
        async with picking(a_stage()) as envoy:
            asked = await envoy().ask(CHAT, headers=[JSON_TYPE, SESSION])

        assert CHAT == asked.body

    async def test_if_envoy_keeps_the_body(self) -> None:
        async with picking(a_stage(), session_header_decides=True) as envoy:
            asked = await envoy(request_mode=BUFFERED).ask(CHAT, headers=[JSON_TYPE, SESSION])

        assert CHAT == asked.body

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ([SESSION, (b"session-id", b"two")], 400),
            ([SESSION, (b"content-length", b"2000")], 413),
            ([SESSION, (b"content-encoding", b"gzip")], 400),
        ],
    )
    async def test_errors_are_those_of_other_requests(self, headers: Headers, status: int) -> None:
        async with picking(a_stage(), session_header_decides=True, max_body_bytes=1000) as envoy:
            asked = await envoy().ask(CHAT, headers=[JSON_TYPE, *headers])

        assert (status, None) == (asked.status, asked.destination)

    async def test_if_no_worker_is_ready(self) -> None:
        stage = a_stage()
        for worker in list(stage.model.fleet):
            stage.model.fleet.set_up(worker.id, up=False)
        stage.model.has_fleet = False
        async with picking(stage, session_header_decides=True) as envoy:
            asked = await envoy().ask(CHAT, headers=[JSON_TYPE, SESSION])

        assert (503, None) == (asked.status, asked.destination)


class TestRefusals:
    """The worker has then got a part of the body, and never its end."""

    async def test_a_caller_without_a_key_reaches_no_worker(self) -> None:
        async with (
            at_work(a_tenancy(a_team())) as tenancy,
            picking(a_stage(tenancy=tenancy), session_header_decides=True) as envoy,
        ):
            asked = await envoy().ask(CHAT, headers=[JSON_TYPE, SESSION])

        assert (401, None) == (asked.status, asked.destination)

    async def test_limits_hold_and_the_ledger_has_the_usage(self) -> None:
        """Sessions of teams are separate."""
        team = a_team(limits={"requests_per_minute": 1})
        async with (
            at_work(a_tenancy(team)) as tenancy,
            picking(a_stage(tenancy=tenancy), session_header_decides=True) as envoy,
        ):
            served, refused = envoy(), envoy()
            await begun(served, headers=[AUTHORIZATION])
            await served.read_rest()
            await served.answered(200, ANSWER)
            await begun(refused, headers=[AUTHORIZATION])
            assert await refused.read_rest() is None
            [record] = await booked(tenancy, 1)

        assert 429 == refused.status
        assert engine_session("blue\0one", "blue").decode() == served.sent["x-session-id"]
        assert ADDRESSES[order("blue\0one")[0]] == (served.destination or "").split(",")[0]
        assert (7, 2, "blue") == (record.prompt_tokens, record.completion_tokens, record.team)

    @pytest.mark.parametrize(
        ("body", "status", "message"),
        [
            (CHAT.replace(b"tiny", b"huge"), 404, "The model 'huge' does not exist or is not served here"),
            (
                CHAT.replace(b"tiny", b"alias"),
                400,
                "The field 'model' must be 'tiny', the name that workers use, because the session header decides "
                "before the body arrives.",
            ),
            (
                CHAT_STREAM[:-1] + b',"stream_options":{"include_usage":false}}',
                400,
                "The gateway has to change this body, whose beginning was already sent to a worker. Send the request "
                "without a session header.",
            ),
        ],
    )
    async def test_the_body_must_fit_what_was_sent(self, body: bytes, status: int, message: str) -> None:
        stage = a_stage(aliases=["alias"])
        async with picking(stage, session_header_decides=True) as envoy:
            asked = envoy()
            await asked.send_head([JSON_TYPE, SESSION])
            await asked.read_begun()
            await asked.send_piece(body[:-1])
            await asked.send_piece(body[-1:], ended=True)
            await asked.read_piece()
            assert await asked.read_rest() is None

        assert (status, message) == (asked.status, asked.error["message"])
        assert {"a": 0, "b": 0, "c": 0} == in_flight(stage.model)

    async def test_a_worker_that_answers_early_ends_the_request(self) -> None:
        """Envoy itself answers if it cannot connect to any of the workers. The body may then never end."""
        stage = a_stage()
        async with picking(stage, session_header_decides=True) as envoy:
            asked = envoy()
            await asked.send_head([JSON_TYPE, SESSION])
            await asked.read_begun()
            await asked.answered(503, b"upstream connect error")

        assert "A worker answered with status 503 before it had the whole body" == asked.error["message"]
        assert "no_worker_available" == asked.error["code"]

    async def test_a_worker_that_leaves_is_status_503(self) -> None:
        stage = a_stage()
        async with picking(stage, session_header_decides=True) as envoy:
            asked = envoy()
            await asked.send_head([JSON_TYPE, SESSION])
            await asked.read_begun()
            chosen = WorkerId(order("one")[0])
            stage.model.workers = {worker: each for worker, each in stage.model.workers.items() if worker != chosen}
            await asked.send_piece(CHAT, ended=True)
            assert await asked.read_rest() is None

        assert (503, "The worker of the session has left") == (asked.status, asked.error["message"])

    async def test_a_caller_who_leaves_releases_everything(self) -> None:
        stage = a_stage()
        async with picking(stage, session_header_decides=True) as envoy:
            asked = envoy()
            await begun(asked)
            await asked.leave()
            async with asyncio.timeout(WAIT_S):
                while not stage.lines:
                    await asyncio.sleep(0.01)

        assert "CallerGone" == stage.line["error"]
