"""The life of a completion request, over ASGI messages and backends without a network."""

import asyncio
import gc
import io
import json
import logging
import random
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from cache_index import WorkerId
from cache_index.tokens import pack, scope_of
from gateway.body import Body
from gateway.disconnects import Disconnects
from gateway.endings import Endings
from gateway.endpoints.endpoint import Endpoint
from gateway.endpoints.table import ENDPOINTS
from gateway.keep_alive import KeepAlive
from gateway.metrics import Metrics
from gateway.model import Model
from gateway.persistence import Persistence
from gateway.proxy import Proxy
from gateway.request_log import RequestLog
from gateway.response_owners import Owner, ResponseOwners
from gateway.tenancy import Tenancy
from gateway.tokenizing.exactness import Exact, NotExact
from gateway.tokenizing.rung import RawPrompt
from routing.booking import Ending
from routing.candidate import Candidate
from routing.dispatcher import Dispatch, Refusal
from routing.explanation import Explanation
from routing.request import Request
from tests.bodies import bodies_up_to
from tests.fakes.backends import EVENTS, Answers, BreaksAfter, Fake, Hangs, Raises, Refuses, ScriptedReply, Streams
from tests.gateway.asgi import App, Caller, Message
from tests.gateway.endpoints.streams import event
from tests.gateway.exact_examples import Tells, follow
from tests.gateway.examples import (
    CHAT,
    CHAT_STREAM,
    DONE,
    ERROR,
    HELLO,
    USAGE,
    WHOLE,
    WORLD,
    Clock,
    InGivenOrder,
    WatchedFleet,
    a_model,
    in_flight,
    the_models,
)
from tests.gateway.tenancy_examples import a_tenancy
from tests.routing.confirmed_examples import MODEL, TOKEN_HASHER, ids_of, stored, told_fleet

CHAT_PATH = "/v1/chat/completions"
STREAM_ASKING_USAGE = (
    b'{"model":"tiny","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}'
)


@dataclass
class Stage:
    """A proxy over one model, with everything that it tells of a request."""

    model: Model
    endpoints: Mapping[str, Endpoint] = field(default_factory=lambda: ENDPOINTS)
    aliases: Sequence[str] = ()
    max_body_bytes: int = 1000
    max_attempts: int | None = None
    sink: io.BytesIO = field(default_factory=io.BytesIO)
    metrics: Metrics = field(default_factory=Metrics)
    disconnects: Disconnects = field(default_factory=lambda: Disconnects(sweep_s=0.001))
    keep_alive: KeepAlive = field(default_factory=lambda: KeepAlive(silence_s=0.015))
    owners: ResponseOwners = field(default_factory=ResponseOwners)
    clock: Clock = field(default_factory=Clock)
    tenancy: Tenancy = field(default_factory=a_tenancy)

    def __post_init__(self) -> None:
        self._endings = Endings([self.metrics, RequestLog(self.sink, wall_clock=Clock(0.0))])
        self.proxy = Proxy(
            self.endpoints,
            the_models(self.model, aliases={self.model.name: self.aliases}),
            admission=self.tenancy.admission,
            owners=self.owners,
            endings=self._endings,
            disconnects=self.disconnects,
            keep_alive=self.keep_alive,
            clock=self.clock,
            rng=random.Random(7),
            bodies=bodies_up_to(self.max_body_bytes),
            persistence=Persistence(most_attempts=self.max_attempts),
        )

    async def ask(self, *pieces: bytes, **how: Any) -> Caller:
        """One request from begin to end."""
        caller = Caller(*pieces, **how)
        await caller.call(self.proxy)
        return caller

    @asynccontextmanager
    async def serving(self, caller: Caller, app: App | None = None) -> AsyncIterator[asyncio.Task[None]]:
        """The task that serves *caller*, while callers who leave are noticed."""
        async with asyncio.TaskGroup() as tasks:
            sweeping = [tasks.create_task(self.disconnects.run()), tasks.create_task(self.keep_alive.run())]
            yield tasks.create_task(caller.call(app or self.proxy))
            for sweep in sweeping:
                sweep.cancel()

    @property
    def lines(self) -> list[dict[str, Any]]:
        self._endings.settle()
        return [json.loads(line) for line in self.sink.getvalue().splitlines()]

    @property
    def line(self) -> dict[str, Any]:
        """The only log line; that the metrics have counted one request as well is checked on the way."""
        (line,) = self.lines
        counted = {
            (sample.labels["model"], sample.labels["status"]): sample.value
            for family in text_string_to_metric_families(self.metrics.exposition().decode())
            for sample in family.samples
            if sample.name == "warmgate_requests_total"
        }
        assert {(line["model"] or "unknown", str(line["status"])): 1.0} == counted
        return line

    def told(self) -> tuple[int, str | None]:
        """Status and fault of the only request; nothing of it is left."""
        line = self.line
        assert 0 == self.model.in_flight
        assert {} == {worker: load for worker, load in in_flight(self.model).items() if load}
        return line["status"], line["error"]


def decisions(stage: Stage) -> list[str]:
    """As the metrics tell them, once every request that ended is counted."""
    assert stage.lines
    return [line for line in stage.metrics.exposition().decode().splitlines() if line.startswith("warmgate_decisions")]


def error_code(caller: Caller) -> str | None:
    """The code in OpenAI's error shape."""
    error = caller.json["error"]
    assert {"message", "type", "param", "code"} == error.keys()
    code: str | None = error["code"]
    return code


# ---- the way up


async def test_a_request_is_answered() -> None:
    """Status, the worker's headers and bytes, and what was decided."""
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
    assert (200, None) == stage.told()


async def test_the_body_goes_up_as_it_came() -> None:
    """Its pieces are joined, and not a byte is changed."""
    worker = Answers()
    raw = b' {"model" : "tiny", "temperature": 1.50, "messages":[{"role":"user","content":"h\\u00e9"}], "x":1e2 }\n'
    await Stage(a_model(worker)).ask(raw[:10], raw[10:11], b"", raw[11:])

    assert raw == worker.calls[0].body


async def test_a_body_in_one_piece_is_not_copied() -> None:
    """The very object that the server gave reaches the backend."""
    worker = Answers()
    raw = bytes(bytearray(CHAT))
    await Stage(a_model(worker)).ask(raw)

    assert raw is worker.calls[0].body


async def test_the_call_says_what_the_caller_said() -> None:
    """Path and query as on the wire, its headers, without what is none of the worker's business."""
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


async def test_the_strategy_that_a_caller_asks_for_is_used_and_shown() -> None:
    """In the response, the log line and the metrics, where the model allows it."""
    stage = Stage(a_model(Answers(), allows_strategy_header=True))
    caller = await stage.ask(CHAT, headers=[(b"x-warmgate-strategy", b"round_robin")])

    assert b"round_robin" == caller.headers[b"x-warmgate-strategy"]
    assert "round_robin" == stage.line["strategy"]
    assert 'warmgate_decisions_total{model="tiny",reason="cold",strategy="round_robin"} 1.0' in decisions(stage)


async def test_where_it_may_not_ask_the_models_own_strategy_is_used() -> None:
    """The header counts for nothing, not even an unknown name in it."""
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
    assert (400, "InvalidField") == stage.told()
    assert [] == worker.calls


class Remembers(InGivenOrder):
    """Every request that it was to rank for."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        self.requests.append(request)
        return super().rank(request, candidates)


def a_told_model(outcome: Exact | NotExact) -> tuple[Model, Tells, Remembers]:
    """Whose worker tells of blocks of 16 tokens; who is asked for tokens, and who ranks."""
    fleet, confirmed = told_fleet(WorkerId("a"))
    confirmed.apply(WorkerId("a"), stored("a"), model=MODEL)
    fleet.tick(0.0)
    ranking = Remembers()
    model = a_model(Answers(), fleet=fleet, upstream_name="engine-tiny", strategy=ranking)
    return model, follow(model, outcome), ranking


async def test_routing_knows_a_prompt_by_its_exact_tokens() -> None:
    """Two blocks and a token, in the scope of the caller's salt; who tells them gets the body as it came."""
    model, rung, ranking = a_told_model(Exact(pack(ids_of("ab")) + pack([7]), 33))
    raw = CHAT[:-1] + b',"cache_salt":"pepper"}'
    stage = Stage(model)
    caller = await stage.ask(raw)
    (request,) = ranking.requests
    scope = scope_of(MODEL, None, "pepper")

    assert [RawPrompt(CHAT_PATH, raw, "engine-tiny")] == rung.asked
    assert (TOKEN_HASHER.prefix(pack(ids_of("ab")), block_size=16, scope=scope),) == request.exact
    assert (33.0, 2) == (request.prompt_tokens, request.exact[0].blocks)
    assert (200, (200, None)) == (caller.status, stage.told())


async def test_without_exact_tokens_text_has_to_do() -> None:
    """The request is served all the same, its tokens estimated."""
    model, _, ranking = a_told_model(NotExact("slow"))
    caller = await Stage(model).ask(CHAT)
    (request,) = ranking.requests

    assert (200, ()) == (caller.status, request.exact)
    assert request.prompt_bytes / model.fleet.bytes_per_token.ratio == request.prompt_tokens


async def test_who_reads_no_cache_is_not_asked_for_its_tokens() -> None:
    """An embedding is computed whole."""
    model, rung, ranking = a_told_model(Exact(pack(ids_of("ab")), 32))
    caller = await Stage(model).ask(b'{"model":"tiny","input":"hello"}', path="/v1/embeddings")

    assert (200, [], ()) == (caller.status, rung.asked, ranking.requests[0].exact)


async def test_one_request_id_stands_everywhere() -> None:
    """The caller's, if it has one: in the response, the call and the log line."""
    worker = Answers()
    stage = Stage(a_model(worker))
    caller = await stage.ask(CHAT, headers=[(b"x-request-id", b"r-9")])

    assert b"r-9" == caller.headers[b"x-request-id"] == dict(worker.calls[0].headers)[b"x-request-id"]
    assert "r-9" == stage.line["request_id"]


async def test_a_request_without_an_id_is_given_one() -> None:
    """32 hexadecimal digits, another one each time."""
    stage = Stage(a_model(Answers()))
    first, second = await stage.ask(CHAT), await stage.ask(CHAT, headers=[(b"x-request-id", b"no good one")])
    ids = {caller.headers[b"x-request-id"] for caller in (first, second)}

    assert 2 == len(ids)
    assert all(32 == len(request_id) and int(request_id, 16) for request_id in ids)


async def test_an_alias_becomes_the_workers_name_of_the_model() -> None:
    """In the body that goes up, and nowhere else: metrics know the configured name, the backend what was asked for."""
    worker = Answers()
    stage = Stage(a_model(worker, upstream_name="org/tiny-7b"), aliases=["gpt-4*"])
    await stage.ask(CHAT.replace(b"tiny", b"gpt-4o"))

    assert CHAT.replace(b"tiny", b"org/tiny-7b") == worker.calls[0].body
    assert "gpt-4o" == worker.calls[0].model
    assert "tiny" == stage.line["model"]


async def test_text_completions_are_read_their_own_way() -> None:
    """Each path has its parser."""
    worker = Answers()
    caller = await Stage(a_model(worker)).ask(b'{"model":"tiny","prompt":"hello"}', path="/v1/completions")

    assert (200, b"/v1/completions") == (caller.status, worker.calls[0].path)


async def test_it_serves_the_paths_of_its_endpoints() -> None:
    """The rest of the application is somebody else's."""
    proxy = Stage(a_model()).proxy

    assert [True, True, False] == [proxy.serves(p) for p in (CHAT_PATH, "/v1/completions", "/v1/models")]


@pytest.mark.parametrize(
    ("headers", "session"),
    [([(b"x-session-id", b"caf\xe9")], "café"), ([(b"x-session-id", b"")], "body"), ([], "body")],
)
async def test_the_session_is_the_headers_else_the_bodys(headers: list[tuple[bytes, bytes]], session: str) -> None:
    """An empty header says nothing."""
    fleet = WatchedFleet(1)
    await Stage(a_model(Answers(), fleet=fleet)).ask(CHAT[:-1] + b',"user":"body"}', headers=headers)

    assert session == fleet.booked[0].request.session


# ---- refused before a worker is chosen


async def refused(stage: Stage, *pieces: bytes, **how: Any) -> tuple[int, str | None]:
    """Status and code of a request that no worker sees; the log line agrees."""
    caller = await stage.ask(*pieces, **how)

    assert caller.status == stage.told()[0]
    assert (0, None) == (stage.line["attempts"], stage.line["worker"])
    assert b"application/json" == caller.headers[b"content-type"]
    assert b"x-request-id" in caller.headers
    assert b"x-warmgate-worker" not in caller.headers
    return caller.status, error_code(caller)


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS", "HEAD"])
async def test_only_post_is_served(method: str) -> None:
    """405, before anything of the body is read, and what is allowed."""
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
    """What cannot be read is said before it is read."""
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
async def test_json_by_any_of_its_names_is_served(headers: list[tuple[bytes, bytes]]) -> None:
    """curl users forget the header; some clients add a charset."""
    assert 200 == (await Stage(a_model(Answers())).ask(CHAT, headers=headers)).status


async def test_an_announced_size_is_413_before_a_byte_is_read() -> None:
    """The caller learns it before it has sent all."""
    caller = Caller(CHAT, headers=[(b"content-length", b"1001")])
    stage = Stage(a_model())
    await caller.call(stage.proxy)

    assert (413, "request_too_large") == (caller.status, error_code(caller))
    assert {"type": "http.request", "body": CHAT, "more_body": False} == await caller.receive()
    assert (413, "BodyTooLarge") == stage.told()


@pytest.mark.parametrize("pieces", [[b" " * 1001], [b" " * 600, b" " * 401], [b" "] * 1001])
async def test_a_size_that_was_not_announced_is_counted(pieces: list[bytes]) -> None:
    """413 as soon as it is too much, in however many pieces it came."""
    assert (413, "request_too_large") == await refused(Stage(a_model()), *pieces)


async def test_a_body_of_just_the_limit_is_served() -> None:
    """With a length announced, and without."""
    stage = Stage(a_model(Answers()), max_body_bytes=len(CHAT))
    announced = await stage.ask(CHAT, headers=[(b"content-length", str(len(CHAT)).encode())])

    assert [200, 200] == [announced.status, (await stage.ask(CHAT[:5], CHAT[5:])).status]


async def test_counting_stops_at_the_limit() -> None:
    """A body without end is not waited for."""
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
    """400 with the field, or 404 for the model; no worker is troubled."""
    worker = Answers()
    stage = Stage(a_model(worker))
    caller = await stage.ask(raw)

    assert (status, param) == (caller.status, caller.json["error"]["param"])
    assert status == stage.told()[0]
    assert [] == worker.calls


async def test_an_unknown_model_is_counted_under_no_name_of_the_callers() -> None:
    """Labels and log lines hold configured names only."""
    stage = Stage(a_model())
    caller = await stage.ask(CHAT.replace(b"tiny", b"no-such-model"))

    assert "model_not_found" == error_code(caller)
    assert (404, "UnknownModel") == stage.told()
    assert stage.line["model"] is None
    assert b"no-such-model" not in stage.metrics.exposition() + stage.sink.getvalue()


# ---- streams


async def test_a_stream_is_passed_on_as_it_comes() -> None:
    """Event by event; the usage that only the gateway wanted is taken out."""
    stage = Stage(a_model(Streams(HELLO, WORLD, USAGE, DONE)))
    caller = await stage.ask(CHAT_STREAM)

    assert [HELLO, WORLD, DONE] == [m["body"] for m in caller.messages[1:] if m["body"]]
    assert (b"text/event-stream", True) == (caller.headers[b"content-type"], caller.ended)
    assert b"content-length" not in caller.headers
    assert (200, None) == stage.told()
    assert (7, 2) == (stage.line["prompt_tokens"], stage.line["completion_tokens"])


async def test_usage_that_the_caller_asked_for_stays() -> None:
    """It goes up as it came, and down too."""
    worker = Streams(HELLO, USAGE, DONE)
    caller = await Stage(a_model(worker)).ask(STREAM_ASKING_USAGE)

    assert HELLO + USAGE + DONE == caller.body
    assert STREAM_ASKING_USAGE == worker.calls[0].body


async def test_events_cut_by_the_network_are_passed_on_whole() -> None:
    """Whatever the pieces were: the caller gets the same bytes, and no usage."""
    whole = HELLO + WORLD + USAGE + DONE
    for size in (1, 2, 7, 50):
        pieces = [whole[i : i + size] for i in range(0, len(whole), size)]

        assert HELLO + WORLD + DONE == (await Stage(a_model(Streams(*pieces))).ask(CHAT_STREAM)).body


async def test_a_last_event_without_its_blank_line_is_passed_on() -> None:
    """The body ended as it should, so the event is complete."""
    caller = await Stage(a_model(Streams(HELLO, DONE.rstrip()))).ask(CHAT_STREAM)

    assert HELLO + DONE.rstrip() == caller.body


async def test_a_stream_that_breaks_ends_with_an_error_event() -> None:
    """Half an event is held back, and no [DONE] claims success; the worker is to blame."""
    fleet = WatchedFleet(1)
    stage = Stage(a_model(BreaksAfter(2, HELLO, WORLD[:9]), fleet=fleet))
    caller = await stage.ask(CHAT_STREAM)

    assert 200 == caller.status
    assert caller.body.startswith(HELLO + b'data: {"error":{"message":"the connection was cut"')
    assert b"[DONE]" not in caller.body
    assert caller.ended
    assert (200, "ReplyBroken") == stage.told()
    assert [("a", Ending.FAILED)] == fleet.endings


async def test_a_stream_that_ends_too_early_ends_with_an_error_event() -> None:
    """A clean end of the body without [DONE] is no success either."""
    fleet = WatchedFleet(1)
    stage = Stage(a_model(Streams(HELLO, WORLD[:9]), fleet=fleet))
    caller = await stage.ask(CHAT_STREAM)

    assert caller.body.startswith(HELLO + b'data: {"error":{"message":"The worker ended the stream before')
    assert b"[DONE]" not in caller.body
    assert (200, "ReplyBroken") == stage.told()
    assert [("a", Ending.FAILED)] == fleet.endings


@pytest.mark.parametrize("end", [Streams, lambda *pieces: BreaksAfter(2, *pieces)])
async def test_an_error_event_never_lands_inside_another(end: Callable[..., Fake]) -> None:
    """An event too long to be kept passes as it comes: a blank line closes what there is of it."""
    long = b'data: {"choices":[{"delta":{"content":"' + b"x" * 70_000
    caller = await Stage(a_model(end(HELLO, long))).ask(CHAT_STREAM)

    assert caller.body.startswith(HELLO + long + b'\n\ndata: {"error":')


@pytest.mark.parametrize("after", [[DONE], [], [USAGE, DONE]])
async def test_an_upstream_error_event_ends_the_stream(after: list[bytes]) -> None:
    """It is passed on once; the [DONE] that engines send all the same is not."""
    fleet = WatchedFleet(1)
    stage = Stage(a_model(Streams(HELLO, ERROR, *after), fleet=fleet))
    caller = await stage.ask(CHAT_STREAM)

    assert HELLO + ERROR == caller.body
    assert caller.ended
    assert (200, "ReplyBroken") == stage.told()
    assert [("a", Ending.FAILED)] == fleet.endings


async def test_before_the_first_event_another_worker_takes_over() -> None:
    """The caller sees one answer, of the one that gave it."""
    stage = Stage(a_model(Refuses(), Streams(ERROR, DONE), BreaksAfter(1, HELLO[:9]), Streams(WORLD, DONE)))
    caller = await stage.ask(CHAT_STREAM)

    assert (200, WORLD + DONE, b"d") == (caller.status, caller.body, caller.headers[b"x-warmgate-worker"])
    assert (200, None) == stage.told()
    assert 4 == stage.line["attempts"]


async def test_a_caller_error_on_a_stream_is_a_plain_answer() -> None:
    """The worker's words with its status, and no event."""
    stage = Stage(a_model(Answers(400, b'{"error":{"message":"too long"}}')))
    caller = await stage.ask(CHAT_STREAM)

    assert (400, b'{"error":{"message":"too long"}}') == (caller.status, caller.body)
    assert (400, "Refused") == stage.told()


# ---- failures


async def test_when_nobody_is_there_the_caller_is_told_when_to_come_back() -> None:
    """503 in OpenAI's shape; who was tried last is named."""
    stage = Stage(a_model(Refuses(), Refuses()))
    caller = await stage.ask(CHAT)

    assert (503, b"2", "no_worker_available") == (caller.status, caller.headers[b"retry-after"], error_code(caller))
    assert b"b" == caller.headers[b"x-warmgate-worker"]
    assert (503, "NoWorker") == stage.told()


async def test_an_empty_fleet_names_no_worker() -> None:
    """There was none to be named."""
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
async def test_what_nobody_foresaw_is_500(raw: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """The caller gets an answer; the log says where and what, but not the text, which might quote the prompt."""
    stage = Stage(a_model(Raises(ZeroDivisionError("hello, the prompt")), Answers()))
    caller = await stage.ask(raw, headers=[(b"x-request-id", b"r-9")])
    (record,) = caplog.records

    assert (500, "internal_error") == (caller.status, error_code(caller))
    assert (500, "GatewayError") == stage.told()
    assert logging.ERROR == record.levelno
    assert "r-9" in record.getMessage()
    assert "ZeroDivisionError" in record.getMessage()
    assert "backends.py" in record.getMessage()
    assert "the prompt" not in caplog.text + caller.body.decode() + stage.sink.getvalue().decode()
    assert record.exc_info is None


async def test_what_nobody_foresaw_in_a_stream_is_an_error_event(caplog: pytest.LogCaptureFixture) -> None:
    """The status is out already; the load is given back all the same."""

    stage = Stage(a_model(Raises(ZeroDivisionError(), HELLO)))
    caller = await stage.ask(CHAT_STREAM)

    assert caller.body.startswith(HELLO + b'data: {"error":{"message":"The gateway failed')
    assert (200, "GatewayError") == stage.told()
    assert 1 == len(caplog.records)


async def test_a_parser_that_fails_is_500() -> None:
    """No request ends without an answer, a log line and its count."""

    def parse(raw: bytes, _: bytes) -> Body:
        raise KeyError(raw)

    stage = Stage(a_model(), endpoints={CHAT_PATH: replace(ENDPOINTS[CHAT_PATH], parse=parse)})

    assert 500 == (await stage.ask(CHAT)).status
    assert (500, "GatewayError") == stage.told()


# ---- callers that go away, and servers that stop


async def test_a_caller_may_leave_while_it_sends() -> None:
    """Nobody is asked, nothing is answered, and it is written down as 499."""
    worker = Answers()
    stage = Stage(a_model(worker))
    caller = Caller(CHAT[:9], finishes_body=False)
    caller.leave()
    await caller.call(stage.proxy)

    assert [] == caller.messages
    assert [] == worker.calls
    assert (499, "CallerGone") == stage.told()


@pytest.mark.parametrize("raw", [CHAT, CHAT_STREAM])
async def test_a_caller_may_leave_before_the_first_byte(raw: bytes) -> None:
    """The worker is told by cancelling the call; its booking ends as aborted, which is no fault of its."""
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
    assert (499, "CallerGone") == stage.told()


async def test_a_caller_may_leave_within_the_first_event() -> None:
    """The reply is open already, and is closed."""
    worker = Hangs(HELLO[:9])
    stage = Stage(a_model(worker))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await worker.hanging.wait()
        caller.leave()
        await task

    assert worker.replies[0].closed
    assert (499, "CallerGone") == stage.told()


async def test_a_caller_may_leave_in_the_middle_of_a_stream() -> None:
    """The reply is closed, so that the worker stops; the status stays what the caller was told."""
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
    assert (200, "CallerGone") == stage.told()


async def test_a_caller_that_reads_slowly_may_leave() -> None:
    """Also while the gateway waits for it to read."""
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
    assert (200, "CallerGone") == stage.told()


async def test_the_task_of_a_caller_that_left_goes_on() -> None:
    """The cancellation was for the request: whatever the server does next in this task is not concerned."""
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
    """Ends its stream when the caller is being watched; the caller leaves while the reply is being closed."""

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


async def test_a_caller_that_leaves_with_its_answer_was_served() -> None:
    """A server reports the end of a response as a disconnect; closing the reply may take longer than that."""
    caller = Caller(CHAT_STREAM)
    worker = ClosesSlowly(caller)
    stage = Stage(a_model(worker))
    async with stage.serving(caller) as task:
        await task

    assert worker.replies[0].closed
    assert HELLO + DONE == caller.body
    assert (200, None) == stage.told()


@pytest.mark.parametrize(("pieces", "status"), [([], 503), ([HELLO], 200)])
async def test_a_request_that_is_cut_short_is_told_so(pieces: list[bytes], status: int) -> None:
    """The server cancels what still runs when it stops: everything is given back, and the caller may ask elsewhere."""
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
    assert (status, "Stopping") == stage.told()
    assert b'warmgate_e2e_seconds_count{model="tiny"} 0.0' in stage.metrics.exposition()


async def test_a_whole_answer_that_is_cut_short_is_left_so() -> None:
    """Its length is told: only the end of the connection can say that it is not complete."""
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
    assert (200, "Stopping") == stage.told()


async def test_a_stop_after_the_answer_changes_nothing() -> None:
    """The caller has it all; only the closing is cut short."""
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
    assert (200, None) == stage.told()


# ---- keep-alives

COMMENT = b": keep-alive\n\n"
WORKER = b": x-warmgate-worker: %b\n\n"


class Delays(Fake):
    """Answers nothing until it is let go, then as *other* does; its streams fall silent before each of their pieces."""

    def __init__(self, other: Fake) -> None:
        super().__init__()
        self._other = other
        self._go = asyncio.Semaphore(0)

    def go(self) -> None:
        """Let the next of what it has to say come."""
        self._go.release()

    async def _reply(self) -> ScriptedReply:
        await self._go.acquire()
        self._other.id = self.id
        scripted = await self._other._reply()
        go = self._go

        class Reply(ScriptedReply):
            async def read(self) -> bytes:
                await go.acquire()
                return await super().read()

        return Reply(scripted.status, scripted.headers, scripted._pieces, then=scripted._then)


async def until_commented(caller: Caller, count: int) -> None:
    async with asyncio.timeout(30):
        while caller.messages[1:] == [] or caller.body.count(COMMENT) < count:
            await asyncio.sleep(0.001)


async def test_a_silent_worker_is_bridged_by_comments() -> None:
    """Before its first byte and within its answer; the worker stands in a comment, the head being out already."""
    worker = Delays(Streams(HELLO, WORLD, DONE))
    stage = Stage(a_model(worker))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await until_commented(caller, 1)
        worker.go()
        worker.go()
        async with asyncio.timeout(30):
            while HELLO not in caller.body:
                await asyncio.sleep(0.001)
        before = caller.body
        await until_commented(caller, before.count(COMMENT) + 1)
        worker.go()
        worker.go()
        await task

    assert before.startswith(COMMENT)
    assert before.endswith(WORKER % b"a" + HELLO)
    assert WORKER % b"a" + HELLO + WORLD + DONE == caller.body.replace(COMMENT, b"")
    assert b"text/event-stream; charset=utf-8" == caller.headers[b"content-type"]
    assert b"x-warmgate-worker" not in caller.headers
    assert 1 == caller.body.count(DONE)
    assert (200, None) == stage.told()


async def test_a_whole_answer_is_waited_for_in_silence() -> None:
    """A comment would be no part of it."""
    worker = Delays(Answers(200, WHOLE))
    stage = Stage(a_model(worker))
    caller = Caller(CHAT)
    async with stage.serving(caller) as task:
        await asyncio.sleep(0.03)

        assert [] == caller.messages

        worker.go()
        worker.go()
        await task

    assert (200, WHOLE) == (caller.status, caller.body)


async def test_a_worker_that_fails_after_a_keep_alive_is_still_replaced() -> None:
    """Nothing of an answer has gone out."""
    worker = Delays(Refuses())
    stage = Stage(a_model(worker, Streams(HELLO, DONE)))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await until_commented(caller, 1)
        worker.go()
        await task

    assert WORKER % b"b" + HELLO + DONE == caller.body.replace(COMMENT, b"")
    assert (200, None) == stage.told()


@pytest.mark.parametrize(
    ("worker", "message", "error"),
    [
        (Refuses(), "No worker for 'tiny' could be reached: a refused the connection", "NoWorker"),
        (Answers(500, b"out of order"), "a answered 500: out of order", "UpstreamRefused"),
        (Answers(400, b'{"message":"too long"}'), "too long", "Refused"),
    ],
)
async def test_a_failure_after_a_keep_alive_is_an_error_event(worker: Fake, message: str, error: str) -> None:
    """The status is out; the fault is named, and there is no [DONE]."""
    delayed = Delays(worker)
    stage = Stage(a_model(delayed))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await until_commented(caller, 1)
        delayed.go()
        delayed.go()
        await task
    last = caller.body.replace(COMMENT, b"")

    assert message == json.loads(last.removeprefix(b"data: "))["error"]["message"]
    assert caller.ended
    assert (200, error) == stage.told()


async def test_a_caller_may_leave_between_comments() -> None:
    """They stop, and the worker is told."""
    worker = Hangs()
    stage = Stage(a_model(worker))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await until_commented(caller, 1)
        caller.leave()
        await task
        comments = caller.body

        assert [] == [late for _ in range(20) for late in stage.keep_alive.late()]

    assert comments == caller.body
    assert worker.given_up
    assert (200, "CallerGone") == stage.told()


# ---- waiting for a turn


class NeverYet:
    """A dispatcher that holds everything."""

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


async def test_a_caller_may_leave_before_it_is_its_turn() -> None:
    """It is in nobody's way any more: not in the queue, and not among those who are watched or kept alive."""
    dispatcher = NeverYet()
    stage = Stage(a_model(Answers(), dispatcher=dispatcher))
    caller = Caller(CHAT_STREAM)
    async with stage.serving(caller) as task:
        await until_commented(caller, 1)

        assert (1, 1) == (stage.model.in_flight, len(dispatcher.held))

        caller.leave()
        await task

    assert [] == dispatcher.held
    assert [] == [late for _ in range(20) for late in stage.keep_alive.late()]
    assert (200, "CallerGone") == stage.told()


async def test_a_request_that_waits_for_its_turn_is_told_of_the_stop() -> None:
    """The server cancels it."""
    dispatcher = NeverYet()
    stage = Stage(a_model(Answers(), dispatcher=dispatcher))
    caller = Caller(CHAT)
    async with stage.serving(caller) as task:
        async with asyncio.timeout(30):
            while not dispatcher.held:
                await asyncio.sleep(0)
        task.cancel()

    assert (503, "gateway_stopping") == (caller.status, error_code(caller))
    assert [] == dispatcher.held
    assert (503, "Stopping") == stage.told()


# ---- responses that workers keep

RESPONSES = "/v1/responses"
GO_ON = b'{"model":"tiny","input":"go on","previous_response_id":"resp_1"}'
CREATED = event("response.created", response={"id": "resp_1"})
DELTA = event("response.output_text.delta", delta="Hello", sequence_number=4)


COMPLETED = event("response.completed", response={"id": "resp_1"})
ASK = b'{"model":"tiny","input":"hi"}'
ASK_STREAM = b'{"model":"tiny","input":"hi","stream":true}'


@pytest.mark.parametrize(
    ("keeper", "ask"),
    [(Answers(200, b'{"id":"resp_1"}'), ASK), (Streams(CREATED, DELTA, COMPLETED), ASK_STREAM)],
)
async def test_a_conversation_goes_on_where_it_is_kept(keeper: Fake, ask: bytes) -> None:
    """Whoever gave the response gets what follows from it, and nobody else is asked."""
    other = Answers(500)
    stage = Stage(a_model(other, keeper))
    await stage.ask(ask, path=RESPONSES)
    other.calls.clear()
    await stage.ask(GO_ON, path=RESPONSES)

    assert [] == other.calls
    assert [ask, GO_ON] == [call.body for call in keeper.calls]


async def test_a_conversation_of_unknown_home_goes_anywhere() -> None:
    """Its worker says whether it knows it."""
    worker = Answers(404, b'{"error":{"message":"not found"}}')
    caller = await Stage(a_model(worker, Answers())).ask(GO_ON, path=RESPONSES)

    assert (404, 1) == (caller.status, len(worker.calls))


async def test_a_conversation_whose_worker_is_gone_is_told_so() -> None:
    """404 with the field; nobody is asked, as nobody could know it."""
    stage = Stage(a_model(Answers()))
    stage.owners.remember("resp_1", Owner("tiny", WorkerId("z")))

    assert (404, "response_not_found") == await refused(stage, GO_ON, path=RESPONSES)


async def test_a_conversation_whose_worker_is_down_is_told_when_to_come_back() -> None:
    """Its memory may be there again in a moment."""
    spare = Answers()
    stage = Stage(a_model(Refuses(), spare))
    stage.owners.remember("resp_1", Owner("tiny", WorkerId("a")))
    caller = await stage.ask(GO_ON, path=RESPONSES)

    assert (503, b"2", []) == (caller.status, caller.headers[b"retry-after"], spare.calls)


async def test_what_the_fallback_answers_is_kept_by_no_worker() -> None:
    """The worker that was tried last least of all."""
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
    """It is passed on, and the end of the stream with it."""
    fleet = WatchedFleet(1)
    stage = Stage(a_model(Streams(CREATED, DELTA, last), fleet=fleet))
    caller = await stage.ask(ASK_STREAM, path=RESPONSES)

    assert CREATED + DELTA + last == caller.body
    assert caller.ended
    assert [("a", ending)] == fleet.endings
    assert (200, error) == stage.told()


async def test_an_announced_response_may_still_be_anothers() -> None:
    """Engines announce it before they know whether they can give it."""
    failed = event("response.failed", response={"error": None})
    stage = Stage(a_model(Streams(CREATED, failed), Streams(CREATED, DELTA, COMPLETED)))
    caller = await stage.ask(ASK_STREAM, path=RESPONSES)

    assert CREATED + DELTA + COMPLETED == caller.body
    assert Owner("tiny", WorkerId("b"), asked="tiny") == stage.owners.find("resp_1")


async def test_a_response_that_breaks_off_ends_with_the_next_number() -> None:
    """Clients count the events."""
    caller = await Stage(a_model(BreaksAfter(2, CREATED, DELTA))).ask(ASK_STREAM, path=RESPONSES)
    last = json.loads(caller.body.rpartition(b"data: ")[2])

    assert ("error", 5, "upstream_broken") == (last["type"], last["sequence_number"], last["code"])


# ---- memory


async def test_a_stream_does_not_hold_on_to_its_prompt() -> None:
    """It may go on for minutes, and there are thousands."""
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
async def test_a_failure_does_not_hold_on_to_the_prompt(failing: list[Fake], ask: bytes) -> None:
    """An error with a traceback would, until the cycle collector comes, which it does rarely."""
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


async def test_a_stream_does_not_hold_on_to_its_first_events() -> None:
    """Announcements repeat the caller's instructions and tools."""
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

BEHAVIOURS: dict[str, Callable[[], Fake]] = {
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
    st.lists(st.sampled_from(sorted(BEHAVIOURS)), max_size=4),
    st.sampled_from([None, *sorted(BEHAVIOURS)]),
    st.sampled_from([CHAT, CHAT_STREAM, b"{"]),
)
def test_every_request_has_one_end(behaviours: list[str], fallback: str | None, raw: bytes) -> None:
    """One response, one log line, one count, no load, no open reply, and [DONE] only where all went well."""
    asyncio.run(_one_end(behaviours, fallback, raw))


async def _one_end(behaviours: list[str], fallback: str | None, raw: bytes) -> None:
    workers = [BEHAVIOURS[behaviour]() for behaviour in behaviours]
    last = BEHAVIOURS[fallback]() if fallback else None
    fleet = WatchedFleet(len(workers))
    stage = Stage(a_model(*workers, fallback=last, fleet=fleet))
    caller = await stage.ask(raw)
    status, error = stage.told()

    assert caller.ended
    assert caller.status == status
    assert fleet.booked == fleet.released
    assert all(reply.closed for worker in [*workers, *([last] if last else [])] for reply in worker.replies)
    assert error is None or b"[DONE]" not in caller.body


# ---- streams that go on elsewhere


def chat_chunk(delta: dict[str, str], *ids: int, **more: Any) -> bytes:
    """As vLLM sends it where token ids are asked for."""
    finish = more.pop("finish", None)
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "token_ids": list(ids) or None}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "tiny"}
    return b"data: " + json.dumps({**head, "choices": [choice], **more}).encode() + b"\n\n"


def text_chunk(text: str, *ids: int, finish: str | None = None) -> bytes:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, "token_ids": list(ids)}
    head = {"id": "cmpl-2", "object": "text_completion", "created": 9, "model": "tiny"}
    return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"


OPENING = chat_chunk({"role": "assistant", "content": ""}, prompt_token_ids=[1, 2, 3])
HEL = chat_chunk({"content": "Hel"}, 10)
LAST = chat_chunk({"content": "lo"}, 11, finish="stop")
SIXTEEN = CHAT_STREAM[:-1] + b',"max_tokens":16}'
GOING_ON = (text_chunk("lo", 11, finish="stop"), DONE)


def content_of(caller: Caller) -> str:
    chunks = [json.loads(line[6:]) for line in caller.body.splitlines() if line.startswith(b"data: {")]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk.get("choices", ()))


async def test_a_stream_whose_worker_dies_goes_on_at_another() -> None:
    """The caller notices nothing: one answer, with one id, one finish and one end."""
    fleet = WatchedFleet(2)
    dying, other = BreaksAfter(2, OPENING, HEL), Streams(*GOING_ON)
    stage = Stage(a_model(dying, other, fleet=fleet, continuation="tokens"))
    caller = await stage.ask(SIXTEEN)
    asked = json.loads(other.calls[0].body)

    assert "Hello" == content_of(caller)
    assert b"[10]" not in caller.body
    assert b"cmpl-2" not in caller.body
    assert (1, 1) == (caller.body.count(b"[DONE]"), caller.body.count(b'"finish_reason":"stop"'))
    assert (b"/v1/completions", [1, 2, 3, 10]) == (other.calls[0].path, asked["prompt"])
    assert (("a", Ending.FAILED), ("b", Ending.ANSWERED)) == (fleet.endings[0], fleet.endings[-1])
    assert (2, 1, "b") == (stage.line["attempts"], stage.line["continued"], stage.line["worker"])
    assert (200, None) == stage.told()


@pytest.mark.parametrize("last", [chat_chunk({"content": ""}, finish="abort"), ERROR])
async def test_a_worker_that_says_itself_that_it_gives_up_is_left_too(last: bytes) -> None:
    """A vLLM that shuts down finishes what it has with abort; nothing of that is told."""
    caller = await Stage(a_model(Streams(OPENING, HEL, last, DONE), Streams(*GOING_ON), continuation="tokens")).ask(
        SIXTEEN
    )

    assert "Hello" == content_of(caller)
    assert b"abort" not in caller.body
    assert b"error" not in caller.body


async def test_where_only_the_end_was_lost_nobody_is_asked() -> None:
    """The finish was with the caller already."""
    other = Streams(*GOING_ON)
    stage = Stage(a_model(BreaksAfter(3, OPENING, HEL, LAST), other, continuation="tokens"))
    caller = await stage.ask(SIXTEEN)

    assert "Hello" == content_of(caller)
    assert caller.body.endswith(DONE)
    assert [] == other.calls
    assert (200, None) == stage.told()


@pytest.mark.parametrize(
    ("other", "code", "reason"),
    [
        (Refuses(), b"no_worker_available", "NoWorker"),
        (Answers(400), b"upstream_broken", "ReplyBroken"),
        (Answers(500), b"upstream_broken", "ReplyBroken"),
    ],
)
async def test_where_nobody_can_go_on_the_stream_ends_with_an_error(other: Fake, code: bytes, reason: str) -> None:
    """It is that of the worker that had begun, or says that nobody is there."""
    stage = Stage(a_model(BreaksAfter(2, OPENING, HEL), other, continuation="tokens"))
    caller = await stage.ask(SIXTEEN)

    assert "Hel" == content_of(caller)
    assert b'"code":"%b"' % code in caller.body
    assert not caller.body.endswith(DONE)
    assert (200, reason) == stage.told()


async def test_what_cannot_be_gone_on_with_exactly_is_not() -> None:
    """Two answers in one stream; the call is the caller's own then, and asks for no ids."""
    two = SIXTEEN[:-1] + b',"n":2}'
    dying, other = BreaksAfter(1, HELLO), Streams(*GOING_ON)
    caller = await Stage(a_model(dying, other, continuation="tokens")).ask(two)

    assert b'"code":"upstream_broken"' in caller.body
    assert b"return_token_ids" not in dying.calls[0].body
    assert [] == other.calls


async def test_a_worker_that_is_drained_hands_its_streams_over() -> None:
    """That is no failure of it."""
    fleet = WatchedFleet(2)
    leaving, other = Hangs(OPENING, HEL), Streams(*GOING_ON)
    model = a_model(leaving, other, fleet=fleet, continuation="tokens")
    stage, caller = Stage(model), Caller(SIXTEEN)
    async with stage.serving(caller) as task:
        await leaving.hanging.wait()
        model.set_draining(WorkerId("a"), draining=True)
        handed_over = model.hand_over(WorkerId("a"))
        await task

    assert 1 == handed_over
    assert "Hello" == content_of(caller)
    assert [("a", Ending.ABORTED), ("b", Ending.ANSWERED)] == fleet.endings


async def test_a_worker_that_only_paused_is_asked_again_where_nobody_else_can_go_on() -> None:
    """Slow is better than lost."""
    fleet = WatchedFleet(2)
    learning = Stage(a_model(Streams(OPENING, HEL, LAST, USAGE, DONE), fleet=fleet, continuation="tokens"))
    await learning.ask(SIXTEEN)

    class PausesOnce(Hangs):
        async def _reply(self) -> ScriptedReply:
            return await super()._reply() if len(self.calls) == 1 else ScriptedReply(200, EVENTS, GOING_ON)

    paused = PausesOnce(OPENING, HEL)
    stage = Stage(a_model(paused, Answers(500), fleet=fleet, continuation="tokens"))
    caller = await stage.ask(SIXTEEN)

    assert "Hello" == content_of(caller)
    assert 2 == len(paused.calls)
    assert (200, None) == stage.told()


async def test_a_stream_that_nobody_could_take_stays() -> None:
    """Cut off, it would be lost."""
    model = a_model(Hangs(OPENING), continuation="tokens")

    assert 0 == model.hand_over(WorkerId("a"))
