"""The life of a completion request, over ASGI messages and backends without a network."""

import asyncio
import gc
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_index import WorkerId
from cache_index.tokens import pack, scope_of
from gateway.models.exact_prompts import ExactPrompts
from gateway.models.model import Model
from gateway.models.response_affinity.owners import ResponseOwner
from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.token_source import RawPrompt
from gateway.protocol.body import Body
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.proxy.bodies.bodies import Bodies
from gateway.proxy.bodies.budget import BodyBudget
from gateway.proxy.bodies.decoder import BodyDecoder
from routing.booking import Ending
from routing.candidate import Candidate
from routing.dispatcher import Dispatch, Refusal
from routing.explanation import Explanation
from routing.request import Request
from tests.fakes.backends import EVENTS, Answers, BreaksAfter, Fake, Hangs, Raises, Refuses, ScriptedReply, Streams
from tests.gateway.asgi import Caller, Message
from tests.gateway.exact_examples import FixedTokens, follow
from tests.gateway.examples import (
    CHAT,
    CHAT_STREAM,
    DONE,
    ERROR,
    HELLO,
    USAGE,
    WHOLE,
    WORLD,
    InGivenOrder,
    WatchedFleet,
    a_model,
)
from tests.gateway.protocol.endpoints.streams import event
from tests.gateway.proxy.stage import CHAT_PATH, Stage, decisions, error_code
from tests.routing.confirmed_examples import MODEL, TOKEN_HASHER, ids_of, reporting_fleet, stored

pytestmark = pytest.mark.interpreted

# ---- the way up


async def test_a_request_is_answered() -> None:
    """The response has the worker's status, headers and bytes, and headers about the decision."""
    stage = Stage(
        a_model(Answers(200, WHOLE, headers=[(b"content-type", b"application/json"), (b"openai-processing-ms", b"1")]))
    )
    caller = await stage.ask(CHAT)

    assert (200, WHOLE) == (caller.status, caller.body)
    assert [
        (b"content-type", b"application/json"),
        (b"openai-processing-ms", b"1"),
        (b"content-length", str(len(WHOLE)).encode()),
        (b"x-request-id", caller.headers[b"x-request-id"]),
        (b"x-warmgate-worker", b"a"),
        (b"x-warmgate-backend", b"worker"),
        (b"x-warmgate-strategy", b"prefix_aware"),
        (b"x-warmgate-hit-blocks", b"0"),
        (b"x-warmgate-hit-tokens", b"0"),
    ] == caller.header_list
    assert (200, None) == stage.outcome()


async def test_the_worker_gets_the_body_unchanged() -> None:
    """Its pieces are joined, and no byte is changed."""
    worker = Answers()
    raw = b' {"model" : "tiny", "temperature": 1.50, "messages":[{"role":"user","content":"h\\u00e9"}], "x":1e2 }\n'
    await Stage(a_model(worker)).ask(raw[:10], raw[10:11], b"", raw[11:])

    assert raw == worker.calls[0].body


async def test_a_body_in_one_piece_is_not_copied() -> None:
    """The backend gets the same object that the server received."""
    worker = Answers()
    raw = bytes(bytearray(CHAT))
    await Stage(a_model(worker)).ask(raw)

    assert raw is worker.calls[0].body


async def test_the_call_has_the_callers_path_and_headers() -> None:
    """Path and query are as sent; headers that are not for workers are left out."""
    worker = Answers()
    headers = [(b"authorization", b"Bearer sk-secret"), (b"x-request-id", b"r-9"), (b"x-tenant", b"blue")]
    await Stage(a_model(worker)).ask(CHAT, query=b"api-version=1", headers=headers)
    (call,) = worker.calls

    assert (b"POST", b"/v1/chat/completions?api-version=1", "tiny", False) == (
        call.method,
        call.path,
        call.model,
        call.streams,
    )
    assert [
        (b"content-type", b"application/json"),
        (b"x-request-id", b"r-9"),
        (b"x-tenant", b"blue"),
    ] == call.headers


async def test_a_requested_strategy_is_used_and_reported() -> None:
    """The response, the log line and the metrics name it, if the model allows it."""
    stage = Stage(a_model(Answers(), allows_strategy_header=True))
    caller = await stage.ask(CHAT, headers=[(b"x-warmgate-strategy", b"round_robin")])

    assert b"round_robin" == caller.headers[b"x-warmgate-strategy"]
    assert "round_robin" == stage.line["strategy"]
    assert 'warmgate_decisions_total{model="tiny",reason="cold",strategy="round_robin"} 1.0' in decisions(stage)


async def test_the_models_strategy_is_used_if_callers_may_not_choose() -> None:
    """The header is ignored, even if it names an unknown strategy."""
    for name in (b"round_robin", b"best"):
        stage = Stage(a_model(Answers()))
        caller = await stage.ask(CHAT, headers=[(b"x-warmgate-strategy", name)])

        assert (200, b"prefix_aware") == (caller.status, caller.headers[b"x-warmgate-strategy"])
        assert 'warmgate_decisions_total{model="tiny",reason="cold",strategy="prefix_aware"} 1.0' in decisions(stage)


async def test_an_unknown_strategy_is_the_callers_fault() -> None:
    """No worker is asked."""
    worker = Answers()
    stage = Stage(a_model(worker, allows_strategy_header=True))
    caller = await stage.ask(CHAT, headers=[(b"x-warmgate-strategy", b"best")])

    assert (400, "x-warmgate-strategy") == (caller.status, caller.json["error"]["param"])
    assert (400, "InvalidField") == stage.outcome()
    assert [] == worker.calls


class Remembers(InGivenOrder):
    """Records each request that it ranks workers for."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        self.requests.append(request)
        return super().rank(request, candidates)


def a_kv_aware_model(outcome: Exact | NotExact) -> tuple[Model, FixedTokens, Remembers]:
    """Return a model with blocks of 16 tokens, its token source and its strategy."""
    fleet, confirmed = reporting_fleet(WorkerId("a"))
    confirmed.apply(WorkerId("a"), stored("a"), model=MODEL)
    fleet.tick(0.0)
    ranking = Remembers()
    model = a_model(Answers(), fleet=fleet, upstream_name="engine-tiny", strategy=ranking)
    return model, follow(model, outcome), ranking


async def test_routing_knows_a_prompt_by_its_exact_tokens() -> None:
    """Two blocks and a token, scoped by the caller's salt. The token source gets the body as sent."""
    model, token_source, ranking = a_kv_aware_model(Exact(pack(ids_of("ab")) + pack([7]), 33))
    raw = CHAT[:-1] + b',"cache_salt":"pepper"}'
    stage = Stage(model)
    caller = await stage.ask(raw)
    (request,) = ranking.requests
    scope = scope_of(MODEL, None, "pepper")

    assert [RawPrompt(CHAT_PATH, raw, "engine-tiny")] == token_source.asked
    assert (TOKEN_HASHER.prefix(pack(ids_of("ab")), block_size=16, scope=scope),) == request.exact
    assert (33.0, 2) == (request.prompt_tokens, request.exact[0].blocks)
    assert (200, (200, None)) == (caller.status, stage.outcome())


@pytest.mark.parametrize(("size", "turns"), [(1_000, 0), (600_000, 1)])
async def test_a_long_request_yields_to_others_after_its_prompt_is_hashed(size: int, turns: int) -> None:
    """To hash the prompt and to send the body takes a millisecond each. For a short body, one turn of the loop is
    enough.
    """
    loop, passed = asyncio.get_running_loop(), 0

    def count() -> None:
        nonlocal passed
        passed += 1
        if not asking.done():
            loop.call_soon(count)

    class NotesTurn(FixedTokens):
        async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
            self.turn = passed
            return await super().ids(prompt)

    class RanksInTurn(Remembers):
        def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
            self.turn = passed
            return super().rank(request, candidates)

    class DecodesHere(BodyDecoder):
        async def read(self, endpoint: Endpoint, raw: bytes, content_type: bytes) -> Body:
            return endpoint.parse(raw, content_type)

    fleet, confirmed = reporting_fleet(WorkerId("a"))
    confirmed.apply(WorkerId("a"), stored("a"), model=MODEL)
    fleet.tick(0.0)
    ranking = RanksInTurn()
    model = a_model(Answers(), fleet=fleet, strategy=ranking)
    token_source = NotesTurn(NotExact("slow"))
    model.exact_prompts = ExactPrompts(
        token_source, model.fleet, hasher=TOKEN_HASHER, upstream_name="tiny", base=MODEL, adapter=None
    )
    raw = b'{"model":"tiny","messages":[{"role":"user","content":"%b"}]}' % (b"x" * size)
    with closing(DecodesHere(max_values=1000, max_cpu_s=10)) as reader:
        bodies = Bodies(max_body_bytes=10**6, budget=BodyBudget(2**30), reader=reader)
        asking = asyncio.create_task(Stage(model, bodies=bodies).ask(raw))
        count()
        caller = await asking

    assert 200 == caller.status
    assert turns == ranking.turn - token_source.turn


async def test_without_exact_tokens_they_are_estimated() -> None:
    """The request is served with an estimate from its text."""
    model, _, ranking = a_kv_aware_model(NotExact("slow"))
    caller = await Stage(model).ask(CHAT)
    (request,) = ranking.requests

    assert (200, ()) == (caller.status, request.exact)
    assert request.prompt_bytes / model.fleet.bytes_per_token.ratio == request.prompt_tokens


async def test_requests_that_use_no_cache_are_not_tokenized() -> None:
    """An embedding is always computed in full."""
    model, token_source, ranking = a_kv_aware_model(Exact(pack(ids_of("ab")), 32))
    caller = await Stage(model).ask(b'{"model":"tiny","input":"hello"}', path="/v1/embeddings")

    assert (200, [], ()) == (caller.status, token_source.asked, ranking.requests[0].exact)


async def test_one_request_id_is_used_everywhere() -> None:
    """The caller's id appears in the response, the call and the log line."""
    worker = Answers()
    stage = Stage(a_model(worker))
    caller = await stage.ask(CHAT, headers=[(b"x-request-id", b"r-9")])

    assert b"r-9" == caller.headers[b"x-request-id"] == dict(worker.calls[0].headers)[b"x-request-id"]
    assert "r-9" == stage.line["request_id"]


async def test_a_request_without_an_id_gets_one() -> None:
    """The id has 32 hexadecimal digits, different each time."""
    stage = Stage(a_model(Answers()))
    first, second = await stage.ask(CHAT), await stage.ask(CHAT, headers=[(b"x-request-id", b"no good one")])
    ids = {caller.headers[b"x-request-id"] for caller in (first, second)}

    assert 2 == len(ids)
    assert all(32 == len(request_id) and int(request_id, 16) for request_id in ids)


async def test_an_alias_becomes_the_workers_name_of_the_model() -> None:
    """Only in the worker's body: metrics use the configured name, the log line has the requested one too."""
    worker = Answers()
    stage = Stage(a_model(worker, upstream_name="org/tiny-7b"), aliases=["gpt-4*"])
    await stage.ask(CHAT.replace(b"tiny", b"gpt-4o"))

    assert CHAT.replace(b"tiny", b"org/tiny-7b") == worker.calls[0].body
    assert "gpt-4o" == worker.calls[0].model
    assert "tiny" == stage.line["model"]


async def test_each_path_has_its_parser() -> None:
    """Text completions are parsed by their own endpoint."""
    worker = Answers()
    caller = await Stage(a_model(worker)).ask(b'{"model":"tiny","prompt":"hello"}', path="/v1/completions")

    assert (200, b"/v1/completions") == (caller.status, worker.calls[0].path)


async def test_the_proxy_serves_the_paths_of_its_endpoints() -> None:
    """All other paths belong to the rest of the application."""
    proxy = Stage(a_model()).proxy

    assert [True, True, False] == [proxy.serves(p) for p in (CHAT_PATH, "/v1/completions", "/v1/models")]


@pytest.mark.parametrize(
    ("headers", "session"),
    [([(b"x-session-id", b"caf\xe9")], "café"), ([(b"x-session-id", b"")], "body"), ([], "body")],
)
async def test_the_session_comes_from_the_header_or_the_body(headers: list[tuple[bytes, bytes]], session: str) -> None:
    """An empty header counts as missing."""
    fleet = WatchedFleet(1)
    model = a_model(Answers(), fleet=fleet, strategy_name="session")
    await Stage(model).ask(CHAT[:-1] + b',"user":"body"}', headers=headers)

    assert session == fleet.booked[0].request.session


# ---- refused before a worker is chosen


async def refused(stage: Stage, *pieces: bytes, **how: Any) -> tuple[int, str | None]:
    """Return status and code of a request that no worker sees, and check its log line."""
    caller = await stage.ask(*pieces, **how)

    assert caller.status == stage.outcome()[0]
    assert (0, None) == (stage.line["attempts"], stage.line["worker"])
    assert b"application/json" == caller.headers[b"content-type"]
    assert b"x-request-id" in caller.headers
    assert b"x-warmgate-worker" not in caller.headers
    return caller.status, error_code(caller)


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS", "HEAD"])
async def test_only_post_is_served(method: str) -> None:
    """Other methods get 405 with the allowed methods, before the body is read."""
    assert (405, "method_not_allowed") == await refused(Stage(a_model()), method=method)
    assert b"POST, OPTIONS" == (await Stage(a_model()).ask(method=method)).headers[b"allow"]


@pytest.mark.parametrize(
    "header",
    [
        (b"content-type", b"text/plain"),
        (b"content-type", b"multipart/form-data; boundary=x"),
        (b"content-type", b""),
        (b"content-encoding", b"br"),
        (b"content-encoding", b"gzip, zstd"),
        (b"content-encoding", b"identity, br"),
    ],
)
async def test_another_medium_is_415(header: tuple[bytes, bytes]) -> None:
    """The check happens before the body is read."""
    assert (415, "unsupported_media_type") == await refused(Stage(a_model()), CHAT, headers=[header])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"content-type", b"application/json")],
        [(b"content-type", b"Application/JSON; charset=utf-8")],
        [(b"content-type", b"application/vnd.x+json")],
        [(b"content-encoding", b"identity")],
        [(b"content-encoding", b"")],
    ],
)
async def test_json_is_served_under_all_its_media_types(headers: list[tuple[bytes, bytes]]) -> None:
    """curl users forget the header; some clients add a charset."""
    assert 200 == (await Stage(a_model(Answers())).ask(CHAT, headers=headers)).status


async def test_an_announced_size_is_413_before_a_byte_is_read() -> None:
    """The caller gets the error before it has sent the body."""
    caller = Caller(CHAT, headers=[(b"content-length", b"1001")])
    stage = Stage(a_model())
    await caller.call(stage.proxy)

    assert (413, "request_too_large") == (caller.status, error_code(caller))
    assert {"type": "http.request", "body": CHAT, "more_body": False} == await caller.receive()
    assert (413, "BodyTooLarge") == stage.outcome()


@pytest.mark.parametrize("pieces", [[b" " * 1001], [b" " * 600, b" " * 401], [b" "] * 1001])
async def test_an_unannounced_size_is_counted(pieces: list[bytes]) -> None:
    """The limit applies to the sum of all pieces."""
    assert (413, "request_too_large") == await refused(Stage(a_model()), *pieces)


async def test_a_body_of_exactly_the_limit_is_served() -> None:
    """Its length may be announced or not."""
    stage = Stage(a_model(Answers()), max_body_bytes=len(CHAT))
    announced = await stage.ask(CHAT, headers=[(b"content-length", str(len(CHAT)).encode())])

    assert [200, 200] == [announced.status, (await stage.ask(CHAT[:5], CHAT[5:])).status]


async def test_counting_stops_at_the_limit() -> None:
    """The gateway does not wait for the end of an endless body."""
    stage = Stage(a_model())

    assert (413, "request_too_large") == await refused(stage, b" " * 600, b" " * 600, finishes_body=False)


@pytest.mark.parametrize(
    ("raw", "status", "param"),
    [
        (b"", 400, None),
        (b"{", 400, None),
        (b"[]", 400, None),
        (b'{"model":"tiny","messages":[]}', 400, "messages"),
        (CHAT.replace(b"tiny", b"huge"), 404, "model"),
    ],
)
async def test_a_body_that_cannot_be_served_is_the_callers_fault(raw: bytes, status: int, param: str | None) -> None:
    """400 names the field, 404 the model; no worker is asked."""
    worker = Answers()
    stage = Stage(a_model(worker))
    caller = await stage.ask(raw)

    assert (status, param) == (caller.status, caller.json["error"]["param"])
    assert status == stage.outcome()[0]
    assert [] == worker.calls


async def test_an_unknown_model_name_never_becomes_a_label() -> None:
    """Labels and log lines hold configured names only."""
    stage = Stage(a_model())
    caller = await stage.ask(CHAT.replace(b"tiny", b"no-such-model"))

    assert "model_not_found" == error_code(caller)
    assert (404, "UnknownModel") == stage.outcome()
    assert stage.line["model"] is None
    assert b"no-such-model" not in stage.metrics.exposition() + stage.sink.getvalue()


# ---- failures


async def test_without_workers_the_answer_is_503_with_retry_after() -> None:
    """The error has OpenAI's shape and names the last worker tried."""
    stage = Stage(a_model(Refuses(), Refuses()))
    caller = await stage.ask(CHAT)

    assert (503, b"2", "no_worker_available") == (caller.status, caller.headers[b"retry-after"], error_code(caller))
    assert b"b" == caller.headers[b"x-warmgate-worker"]
    assert (503, "NoWorker") == stage.outcome()


async def test_an_empty_fleet_names_no_worker() -> None:
    """No worker was tried."""
    stage = Stage(a_model())
    caller = await stage.ask(CHAT)

    assert 503 == caller.status
    assert b"x-warmgate-worker" not in caller.headers
    assert ("none", 0) == (stage.line["reason"], stage.line["attempts"])


async def test_the_number_of_attempts_is_a_setting() -> None:
    """The third worker would have answered."""
    stage = Stage(a_model(Refuses(), Refuses(), Answers()), max_attempts=2)

    assert 503 == (await stage.ask(CHAT)).status


@pytest.mark.parametrize("raw", [CHAT, CHAT_STREAM])
async def test_an_unexpected_error_is_500(raw: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the traceback without the text of the error, which might quote the prompt."""
    stage = Stage(a_model(Raises(ZeroDivisionError("hello, the prompt")), Answers()))
    caller = await stage.ask(raw, headers=[(b"x-request-id", b"r-9")])
    (record,) = caplog.records

    assert (500, "internal_error") == (caller.status, error_code(caller))
    assert (500, "GatewayError") == stage.outcome()
    assert logging.ERROR == record.levelno
    assert "r-9" in record.getMessage()
    assert "ZeroDivisionError" in record.getMessage()
    assert "backends.py" in record.getMessage()
    assert "the prompt" not in caplog.text + caller.body.decode() + stage.sink.getvalue().decode()
    assert record.exc_info is None


async def test_an_unexpected_error_in_a_stream_is_an_error_event(caplog: pytest.LogCaptureFixture) -> None:
    """The status was sent already; the slot is released."""

    stage = Stage(a_model(Raises(ZeroDivisionError(), HELLO)))
    caller = await stage.ask(CHAT_STREAM)

    assert caller.body.startswith(HELLO + b'data: {"error":{"message":"The gateway failed')
    assert (200, "GatewayError") == stage.outcome()
    assert 1 == len(caplog.records)


async def test_a_parser_that_fails_is_500() -> None:
    """Every request ends with an answer, a log line and a count."""

    def parse(raw: bytes, _: bytes) -> Body:
        raise KeyError(raw)

    stage = Stage(a_model(), endpoints={CHAT_PATH: replace(ENDPOINTS[CHAT_PATH], parse=parse)})

    assert 500 == (await stage.ask(CHAT)).status
    assert (500, "GatewayError") == stage.outcome()


# ---- callers that release away, and servers that stop


async def test_a_caller_may_disconnect_while_it_sends() -> None:
    """No worker is asked; the log line has status 499."""
    worker = Answers()
    stage = Stage(a_model(worker))
    caller = Caller(CHAT[:9], finishes_body=False)
    caller.leave()
    await caller.call(stage.proxy)

    assert [] == caller.messages
    assert [] == worker.calls
    assert (499, "CallerGone") == stage.outcome()


@pytest.mark.parametrize("raw", [CHAT, CHAT_STREAM])
async def test_a_caller_may_disconnect_before_the_first_byte(raw: bytes) -> None:
    """The call is cancelled; the slot ends as aborted, which does not count against the worker."""
    fleet, worker, spare = WatchedFleet(2), Hangs(), Answers()
    stage = Stage(a_model(worker, spare, fleet=fleet))
    caller = Caller(raw)
    async with stage.serving(caller) as task:
        await worker.hanging.wait()
        assert 1 == stage.model.in_flight
        caller.leave()
        await task

    assert worker.given_up
    assert [] == caller.messages
    assert [] == spare.calls
    assert [("a", Ending.ABORTED)] == fleet.endings
    assert (499, "CallerGone") == stage.outcome()


async def test_a_caller_may_disconnect_within_the_first_event() -> None:
    """The open reply is closed."""
    worker = Hangs(HELLO[:9])
    stage = Stage(a_model(worker))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await worker.hanging.wait()
        caller.leave()
        await task

    assert worker.replies[0].closed
    assert (499, "CallerGone") == stage.outcome()


async def test_a_caller_may_disconnect_in_a_stream() -> None:
    """The reply is closed, so that the worker stops; the logged status is the one that was sent."""
    fleet, worker = WatchedFleet(1), Hangs(HELLO, WORLD)
    stage = Stage(a_model(worker, fleet=fleet))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await worker.hanging.wait()
        caller.leave()
        await task

    assert HELLO + WORLD == caller.body
    assert not caller.ended
    assert worker.replies[0].closed
    assert [("a", Ending.ABORTED)] == fleet.endings
    assert (200, "CallerGone") == stage.outcome()


async def test_a_slow_reader_may_disconnect() -> None:
    """The gateway notices it while it waits for the caller to read."""
    worker = Streams(HELLO, WORLD, DONE)
    stage = Stage(a_model(worker))
    caller = Caller(CHAT_STREAM)

    async def slow(scope: Message, receive: Any, send: Any) -> None:
        async def sending(message: Message) -> None:
            await send(message)
            if message.get("body"):
                caller.leave()
                await asyncio.Event().wait()

        await stage.proxy(scope, receive, sending)

    async with stage.serving(caller, slow) as task:
        await task

    assert HELLO == caller.body
    assert worker.replies[0].closed
    assert (200, "CallerGone") == stage.outcome()


async def test_the_cancellation_ends_with_the_request() -> None:
    """The server's task can release on afterwards."""
    worker = Hangs()
    stage = Stage(a_model(worker))
    caller = Caller(CHAT)
    went_on = asyncio.Event()

    async def server(scope: Message, receive: Any, send: Any) -> None:
        await stage.proxy(scope, receive, send)
        await asyncio.sleep(0)
        went_on.set()

    async with stage.serving(caller, server) as task:
        await worker.hanging.wait()
        caller.leave()
        await task

    assert went_on.is_set()
    assert 0 == task.cancelling()


class ClosesSlowly(Fake):
    """Ends its stream while the caller is watched; the caller disconnects while the reply is being closed."""

    def __init__(self, caller: Caller) -> None:
        super().__init__()
        self._caller = caller

    async def _reply(self) -> ScriptedReply:
        caller = self._caller

        class Reply(ScriptedReply):
            async def read(self) -> bytes:
                piece = await super().read()
                if piece == DONE:
                    await caller.watched.wait()
                return piece

            async def aclose(self) -> None:
                caller.leave()
                for _ in range(20):
                    await asyncio.sleep(0)
                await super().aclose()

        return Reply(200, EVENTS, [HELLO, DONE])


async def test_a_disconnect_after_the_answer_is_not_an_error() -> None:
    """A server reports the end of a response as a disconnect, possibly while the reply is being closed."""
    caller = Caller(CHAT_STREAM)
    worker = ClosesSlowly(caller)
    stage = Stage(a_model(worker))
    async with stage.serving(caller) as task:
        await task

    assert worker.replies[0].closed
    assert HELLO + DONE == caller.body
    assert (200, None) == stage.outcome()


@pytest.mark.parametrize(("pieces", "status"), [([], 503), ([HELLO], 200)])
async def test_a_stopping_server_answers_running_requests(pieces: list[bytes], status: int) -> None:
    """It cancels them; everything is given back, and callers get an error that invites a retry."""
    fleet, worker = WatchedFleet(1), Hangs(*pieces)
    stage = Stage(a_model(worker, fleet=fleet))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await worker.hanging.wait()
        task.cancel()

    assert caller.body.startswith(b"".join(pieces))
    assert b'"code":"gateway_stopping"' in caller.body
    assert DONE not in caller.body
    assert [("a", Ending.ABORTED)] == fleet.endings
    assert all(reply.closed for reply in worker.replies)
    assert (status, "Stopping") == stage.outcome()
    assert b'warmgate_request_duration_seconds_count{model="tiny"} 0.0' in stage.metrics.exposition()


async def test_a_cut_answer_with_a_length_gets_no_error() -> None:
    """Only the end of the connection can show that it is incomplete."""
    stage = Stage(a_model(Answers(200, WHOLE)))
    caller = Caller(CHAT)
    is_stuck = asyncio.Event()

    async def stuck(scope: Message, receive: Any, send: Any) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.body":
                is_stuck.set()
                await asyncio.Event().wait()
            await send(message)

        await stage.proxy(scope, receive, sending)

    async with stage.serving(caller, stuck) as task:
        await is_stuck.wait()
        task.cancel()

    assert task.cancelled()
    assert 1 == len(caller.messages)
    assert (200, "Stopping") == stage.outcome()


async def test_a_stop_after_the_answer_changes_nothing() -> None:
    """The caller has the whole answer; only the closing is cut short."""
    fleet = WatchedFleet(1)
    closing = asyncio.Event()

    class ClosesNever(Fake):
        async def _reply(self) -> ScriptedReply:
            class Reply(ScriptedReply):
                async def aclose(self) -> None:
                    closing.set()
                    await asyncio.Event().wait()

            return Reply(200, EVENTS, [HELLO, DONE])

    stage = Stage(a_model(ClosesNever(), fleet=fleet))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await closing.wait()
        task.cancel()

    assert HELLO + DONE == caller.body
    assert [("a", Ending.ANSWERED)] == fleet.endings
    assert (200, None) == stage.outcome()


# ---- keep-alives

COMMENT = b": keep-alive\n\n"
WORKER = b": x-warmgate-worker: %b\n\n"


class Delays(Fake):
    """Answers like *other* once it is released; its streams pause before each piece."""

    def __init__(self, other: Fake) -> None:
        super().__init__()
        self._other = other
        self._go = asyncio.Semaphore(0)

    def release(self) -> None:
        """Let the next piece come."""
        self._go.release()

    async def _reply(self) -> ScriptedReply:
        await self._go.acquire()
        self._other.id = self.id
        scripted = await self._other._reply()
        release = self._go

        class Reply(ScriptedReply):
            async def read(self) -> bytes:
                await release.acquire()
                return await super().read()

        return Reply(scripted.status, scripted.headers, scripted._pieces, then=scripted._then)


async def until_commented(caller: Caller, count: int) -> None:
    async with asyncio.timeout(60):
        while caller.messages[1:] == [] or caller.body.count(COMMENT) < count:
            await asyncio.sleep(0.001)


async def test_comments_fill_the_silence_of_a_worker() -> None:
    """They come before the first byte and inside the stream; one of them names the worker."""
    worker = Delays(Streams(HELLO, WORLD, DONE))
    stage = Stage(a_model(worker))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await until_commented(caller, 1)
        worker.release()
        worker.release()
        async with asyncio.timeout(60):
            while HELLO not in caller.body:
                await asyncio.sleep(0.001)
        before = caller.body
        await until_commented(caller, before.count(COMMENT) + 1)
        worker.release()
        worker.release()
        await task

    assert before.startswith(COMMENT)
    assert before.endswith(WORKER % b"a" + HELLO)
    assert WORKER % b"a" + HELLO + WORLD + DONE == caller.body.replace(COMMENT, b"")
    assert b"text/event-stream; charset=utf-8" == caller.headers[b"content-type"]
    assert b"x-warmgate-worker" not in caller.headers
    assert 1 == caller.body.count(DONE)
    assert (200, None) == stage.outcome()


async def test_an_answer_that_does_not_stream_gets_no_comments() -> None:
    """A comment would break it."""
    worker = Delays(Answers(200, WHOLE))
    stage = Stage(a_model(worker))
    caller = Caller(CHAT)
    async with stage.serving(caller) as task:
        await asyncio.sleep(0.03)

        assert [] == caller.messages

        worker.release()
        worker.release()
        await task

    assert (200, WHOLE) == (caller.status, caller.body)


async def test_a_worker_that_fails_after_a_keep_alive_is_still_replaced() -> None:
    """No part of an answer was sent."""
    worker = Delays(Refuses())
    stage = Stage(a_model(worker, Streams(HELLO, DONE)))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await until_commented(caller, 1)
        worker.release()
        await task

    assert WORKER % b"b" + HELLO + DONE == caller.body.replace(COMMENT, b"")
    assert (200, None) == stage.outcome()


@pytest.mark.parametrize(
    ("worker", "message", "error"),
    [
        (Refuses(), "No worker of model 'tiny' answered: a refused the connection", "NoWorker"),
        (Answers(500, b"out of order"), "a answered 500: out of order", "UpstreamRefused"),
        (Answers(400, b'{"message":"too long"}'), "too long", "Refused"),
    ],
)
async def test_a_failure_after_a_keep_alive_is_an_error_event(worker: Fake, message: str, error: str) -> None:
    """The status was sent already; the event names the error, and there is no [DONE]."""
    delayed = Delays(worker)
    stage = Stage(a_model(delayed))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await until_commented(caller, 1)
        delayed.release()
        delayed.release()
        await task
    last = caller.body.replace(COMMENT, b"")

    assert message == json.loads(last.removeprefix(b"data: "))["error"]["message"]
    assert caller.ended
    assert (200, error) == stage.outcome()


async def test_a_caller_may_disconnect_between_comments() -> None:
    """The comments stop, and the call is cancelled."""
    worker = Hangs()
    stage = Stage(a_model(worker))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await until_commented(caller, 1)
        caller.leave()
        await task
        comments = caller.body

        assert [] == [late for _ in range(20) for late in stage.keep_alive.overdue()]

    assert comments == caller.body
    assert worker.given_up
    assert (200, "CallerGone") == stage.outcome()


# ---- waiting for a turn


class NeverYet:
    """A dispatcher that holds all requests."""

    def __init__(self) -> None:
        self.held: list[Request] = []

    @property
    def waiting(self) -> int:
        return len(self.held)

    @property
    def waiting_by_team(self) -> Mapping[str, int]:
        return {"": len(self.held)}

    def at_once(self, request: Request, now: float) -> Dispatch:
        raise NotImplementedError

    def refused(self) -> list[Refusal]:
        return []

    @property
    def others_wait(self) -> bool:
        return bool(self.held)

    def oldest_wait_s(self, now: float) -> float:
        return 0.0

    def submit(self, request: Request, now: float) -> None:
        self.held.append(request)

    def poll(self, now: float) -> list[Dispatch]:
        return []

    def next_poll_at(self, now: float) -> float | None:
        return None

    def hand_over(self) -> list[tuple[Request, float]]:
        raise NotImplementedError

    def cancel(self, request: Request) -> None:
        self.held.remove(request)

    def explain(self, request: Request, now: float) -> Explanation:
        raise NotImplementedError


async def test_a_caller_may_disconnect_while_it_is_queued() -> None:
    """The request leaves the queue, and is neither watched nor kept alive any more."""
    dispatcher = NeverYet()
    stage = Stage(a_model(Answers(), dispatcher=dispatcher))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await until_commented(caller, 1)

        assert (1, 1) == (stage.model.in_flight, len(dispatcher.held))

        caller.leave()
        await task

    assert [] == dispatcher.held
    assert [] == [late for _ in range(20) for late in stage.keep_alive.overdue()]
    assert (200, "CallerGone") == stage.outcome()


async def test_a_stopping_server_answers_queued_requests() -> None:
    """It cancels them."""
    dispatcher = NeverYet()
    stage = Stage(a_model(Answers(), dispatcher=dispatcher))
    caller = Caller(CHAT)
    async with stage.serving(caller) as task:
        async with asyncio.timeout(60):
            while not dispatcher.held:
                await asyncio.sleep(0)
        task.cancel()

    assert (503, "gateway_stopping") == (caller.status, error_code(caller))
    assert [] == dispatcher.held
    assert (503, "Stopping") == stage.outcome()


# ---- responses that workers keep

RESPONSES = "/v1/responses"
GO_ON = b'{"model":"tiny","input":"release on","previous_response_id":"resp_1"}'
CREATED = event("response.created", response={"id": "resp_1"})
DELTA = event("response.output_text.delta", delta="Hello", sequence_number=4)


COMPLETED = event("response.completed", response={"id": "resp_1"})
ASK = b'{"model":"tiny","input":"hi"}'
ASK_STREAM = b'{"model":"tiny","input":"hi","stream":true}'


@pytest.mark.parametrize(
    ("keeper", "ask"),
    [(Answers(200, b'{"id":"resp_1"}'), ASK), (Streams(CREATED, DELTA, COMPLETED), ASK_STREAM)],
)
async def test_a_conversation_goes_to_the_worker_that_stores_it(keeper: Fake, ask: bytes) -> None:
    """No other worker is asked."""
    other = Answers(500)
    stage = Stage(a_model(other, keeper))
    await stage.ask(ask, path=RESPONSES)
    other.calls.clear()
    await stage.ask(GO_ON, path=RESPONSES)

    assert [] == other.calls
    assert [ask, GO_ON] == [call.body for call in keeper.calls]


async def test_a_conversation_without_a_known_worker_goes_to_any() -> None:
    """The chosen worker answers whether it stores the response."""
    worker = Answers(404, b'{"error":{"message":"not found"}}')
    caller = await Stage(a_model(worker, Answers())).ask(GO_ON, path=RESPONSES)

    assert (404, 1) == (caller.status, len(worker.calls))


async def test_a_conversation_whose_worker_is_gone_is_404() -> None:
    """The error names the field; no worker is asked."""
    stage = Stage(a_model(Answers()))
    stage.owners.remember("resp_1", ResponseOwner("tiny", WorkerId("z")))

    assert (404, "response_not_found") == await refused(stage, GO_ON, path=RESPONSES)


async def test_a_conversation_whose_worker_is_down_is_503_with_retry_after() -> None:
    """The worker may be up again in a moment."""
    spare = Answers()
    stage = Stage(a_model(Refuses(), spare))
    stage.owners.remember("resp_1", ResponseOwner("tiny", WorkerId("a")))
    caller = await stage.ask(GO_ON, path=RESPONSES)

    assert (503, b"2", []) == (caller.status, caller.headers[b"retry-after"], spare.calls)


async def test_answers_of_fallbacks_are_stored_by_no_worker() -> None:
    """The worker that was tried last is not remembered for them."""
    stage = Stage(a_model(Refuses(), fallback=Answers(200, b'{"id":"resp_1"}')))
    await stage.ask(ASK, path=RESPONSES)

    assert stage.owners.find("resp_1") is None


@pytest.mark.parametrize(
    ("last", "ending", "error"),
    [
        (event("response.completed", response={}), Ending.ANSWERED, None),
        (event("response.incomplete", response={}), Ending.ANSWERED, None),
        (event("response.failed", response={"error": {"code": "server_error"}}), Ending.FAILED, "ReplyBroken"),
        (event("error", message="out of memory"), Ending.FAILED, "ReplyBroken"),
        (event("error", code="400", message="too long"), Ending.REFUSED, "Refused"),
    ],
)
async def test_the_last_event_of_a_response_says_how_it_ended(last: bytes, ending: Ending, error: str | None) -> None:
    """The event and the end of the stream are passed on."""
    fleet = WatchedFleet(1)
    stage = Stage(a_model(Streams(CREATED, DELTA, last), fleet=fleet))
    caller = await stage.ask(ASK_STREAM, path=RESPONSES)

    assert CREATED + DELTA + last == caller.body
    assert caller.ended
    assert [("a", ending)] == fleet.endings
    assert (200, error) == stage.outcome()


async def test_another_worker_may_answer_an_announced_response() -> None:
    """Engines announce a response before they know whether they can generate it."""
    failed = event("response.failed", response={"error": None})
    stage = Stage(a_model(Streams(CREATED, failed), Streams(CREATED, DELTA, COMPLETED)))
    caller = await stage.ask(ASK_STREAM, path=RESPONSES)

    assert CREATED + DELTA + COMPLETED == caller.body
    assert ResponseOwner("tiny", WorkerId("b"), asked="tiny") == stage.owners.find("resp_1")


async def test_the_error_event_of_a_response_has_the_next_number() -> None:
    """Clients count the events."""
    caller = await Stage(a_model(BreaksAfter(2, CREATED, DELTA))).ask(ASK_STREAM, path=RESPONSES)
    last = json.loads(caller.body.rpartition(b"data: ")[2])

    assert ("error", 5, "upstream_broken") == (last["type"], last["sequence_number"], last["code"])


# ---- memory


async def test_a_stream_does_not_keep_its_prompt_in_memory() -> None:
    """It may last for minutes, and there are thousands."""
    worker = Hangs(HELLO)
    stage = Stage(a_model(worker), max_body_bytes=100_000)
    raw = CHAT_STREAM.replace(b"hello", b"x" * 50_000)
    caller = Caller(raw)
    async with stage.serving(caller) as task:
        await worker.hanging.wait()
        worker.calls.clear()
        held = sys.getrefcount(raw)
        caller.leave()
        await task

    assert sys.getrefcount(raw) == held


@pytest.mark.parametrize("ask", [CHAT, CHAT_STREAM])
@pytest.mark.parametrize(
    "failing",
    [[Refuses()], [Answers(500)], [Refuses(), Answers(503)], [Answers(500), Streams(HELLO, DONE)], [Streams(ERROR)]],
)
async def test_an_error_does_not_keep_the_prompt_in_memory(failing: list[Fake], ask: bytes) -> None:
    """The frames of its traceback would, until the cycle collector runs."""
    stage = Stage(a_model(*failing), max_body_bytes=100_000)
    raw = ask.replace(b"hello", b"x" * 50_000)
    before = sys.getrefcount(raw)
    gc.disable()
    try:
        await stage.ask(raw)
        for worker in failing:
            worker.calls.clear()

        assert before == sys.getrefcount(raw)
    finally:
        gc.enable()


async def test_a_stream_does_not_keep_its_first_events_in_memory() -> None:
    """They repeat the caller's instructions and tools."""
    first = HELLO.replace(b"Hello", b"x" * 50_000)
    worker = Hangs(first, WORLD)
    stage = Stage(a_model(worker))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await worker.hanging.wait()
        caller.messages.clear()
        held = sys.getrefcount(first)
        caller.leave()
        await task

    assert sys.getrefcount(first) == held


# ---- whatever happens

BEHAVIORS: dict[str, Callable[[], Fake]] = {
    "answers": lambda: Answers(200, WHOLE),
    "answers 400": lambda: Answers(400),
    "answers 429": lambda: Answers(429),
    "answers 500": lambda: Answers(500),
    "refuses": Refuses,
    "breaks at once": lambda: BreaksAfter(0),
    "breaks in the stream": lambda: BreaksAfter(1, HELLO),
    "streams": lambda: Streams(HELLO, USAGE, DONE),
    "streams an error": lambda: Streams(ERROR),
    "streams an error late": lambda: Streams(HELLO, ERROR, DONE),
    "ends too early": lambda: Streams(HELLO),
    "raises": lambda: Raises(RuntimeError("?")),
}


@given(
    st.lists(st.sampled_from(sorted(BEHAVIORS)), max_size=4),
    st.sampled_from([None, *sorted(BEHAVIORS)]),
    st.sampled_from([CHAT, CHAT_STREAM, b"{"]),
)
def test_every_request_has_one_end(behaviors: list[str], fallback: str | None, raw: bytes) -> None:
    """One response, one log line and one count; no slot or open reply is left; [DONE] means success."""
    asyncio.run(_one_end(behaviors, fallback, raw))


async def _one_end(behaviors: list[str], fallback: str | None, raw: bytes) -> None:
    workers = [BEHAVIORS[behavior]() for behavior in behaviors]
    last = BEHAVIORS[fallback]() if fallback else None
    fleet = WatchedFleet(len(workers))
    stage = Stage(a_model(*workers, fallback=last, fleet=fleet))
    caller = await stage.ask(raw)
    status, error = stage.outcome()

    assert caller.ended
    assert caller.status == status
    assert fleet.booked == fleet.released
    assert all(reply.closed for worker in [*workers, *([last] if last else [])] for reply in worker.replies)
    assert error is None or b"[DONE]" not in caller.body
