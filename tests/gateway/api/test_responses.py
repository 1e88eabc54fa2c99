"""`/v1/responses/{id}`, as a caller sees it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import unquote

import httpx
import pytest
from fastapi import FastAPI

from gateway.api.kept_looks import KeptLooks
from gateway.api.kept_responses import KeptResponses
from gateway.api.responses import router
from gateway.models.response_affinity.owners import ResponseOwners
from gateway.protocol.errors import InvalidField, ReplyBroken, UnknownResponse
from gateway.proxy.completed_requests import CompletedRequests
from gateway.proxy.guardrails.counters import GuardrailCounters
from gateway.proxy.guardrails.filter import Action
from gateway.proxy.guardrails.guards import GuardedModels, ModelGuards
from tests.fakes.backends import JSON, Answers, BreaksAfter, Fake, Hangs, Streams
from tests.gateway.asgi import Caller
from tests.gateway.examples import Clock, a_model, the_models
from tests.gateway.proxy.guardrails.examples import a_filter, a_rule
from tests.gateway.tenancy_examples import a_tenancy

KEPT = b'{"id":"resp_1","status":"completed"}'
DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":6}\n\n'
COMPLETED = b'event: response.completed\ndata: {"type":"response.completed","sequence_number":7}\n\n'


def the_api(*workers: Fake, upstream_name: str | None = None) -> FastAPI:
    api = FastAPI()
    api.include_router(router)
    api.state.access = a_tenancy().access
    api.state.kept_responses = KeptResponses(
        the_models(a_model(*workers, upstream_name=upstream_name)), ResponseOwners()
    )
    api.state.kept_looks = KeptLooks(a_tenancy().admission, CompletedRequests([]), clock=Clock())
    return api


@asynccontextmanager
async def client(*workers: Fake, upstream_name: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(the_api(*workers, upstream_name=upstream_name))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers={"x-request-id": "r-1"}
    ) as client:
        yield client


async def test_a_response_is_reported_as_its_worker_reports_it() -> None:
    """Status, body and headers, but for what belongs to the way they came."""
    headers = [(b"content-type", b"application/json"), (b"openai-processing-ms", b"1"), (b"x-request-id", b"theirs")]
    worker = Answers(200, KEPT[:9], KEPT[9:], headers=headers)
    async with client(worker) as asking:
        response = await asking.get("/v1/responses/resp_1")

    assert (200, KEPT) == (response.status_code, response.content)
    assert [
        (b"content-length", b"36"),
        (b"content-type", b"application/json"),
        (b"openai-processing-ms", b"1"),
    ] == sorted(response.headers.raw)
    assert worker.replies[0].closed


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1?include=x&starting_after=3"),
        ("DELETE", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/input_items?limit=2"),
        ("POST", "/v1/responses/resp_1/cancel"),
    ],
)
async def test_the_call_goes_on_as_it_came(method: str, path: str) -> None:
    """Method, path and query; a body has no meaning here and stays, as do the caller's credentials."""
    worker = Answers(200, KEPT)
    async with client(worker) as asking:
        headers = {"authorization": "Bearer sk-secret", "x-tenant": "blue", "content-type": "text/plain"}
        await asking.request(method, path, content=b"x" * 9, headers=headers)
    (call,) = worker.calls

    assert (method, path, b"", False) == (call.method.decode(), call.path.decode(), call.body, call.streams)
    assert {(b"x-request-id", b"r-1"), (b"x-tenant", b"blue")} <= set(call.headers)
    assert not {b"authorization", b"content-length", b"host"} & {name for name, _ in call.headers}


@pytest.mark.parametrize("spelt", ["..", "%2e%2e", "r%20s", "resp_1%00", "r%0d%0aX", "%c3%a9", "r" * 257, "-r"])
async def test_what_cannot_be_an_id_goes_nowhere(spelt: str) -> None:
    """A worker might take its path for another."""
    worker = Answers(200, KEPT)
    caller = Caller(method="GET", path=f"/v1/responses/{unquote(spelt)}", headers=[(b"x-request-id", b"r-1")])
    with pytest.raises(InvalidField, match="'response_id' must be an id"):
        await caller.call(the_api(worker))

    assert [] == worker.calls


async def test_the_path_is_made_again_from_the_id() -> None:
    """However the caller has encoded it."""
    worker = Answers(200, KEPT)
    async with client(worker) as asking:
        await asking.get("/v1/responses/%72esp%5F1/input_items?limit=2")

    assert b"/v1/responses/resp_1/input_items?limit=2" == worker.calls[0].path


async def test_an_unknown_response_is_unknown() -> None:
    """The error is the application's to tell."""
    async with client() as asking:
        with pytest.raises(UnknownResponse):
            await asking.get("/v1/responses/resp_1")


async def test_a_workers_refusal_is_reported_in_openais_shape() -> None:
    """Whatever shape it had; what described its body goes with it."""
    worker = Answers(400, b'{"detail":"no"}', headers=[(b"content-type", b"text/plain"), (b"etag", b'"1"')])
    async with client(worker) as asking:
        response = await asking.post("/v1/responses/resp_1/cancel")

    found = {"message": "no", "type": "invalid_request_error", "param": None, "code": None}
    assert (400, {"error": found}) == (response.status_code, response.json())
    assert "application/json" == response.headers["content-type"]
    assert "etag" not in response.headers


async def test_a_refusal_in_openais_shape_stays_as_it_is() -> None:
    """Byte for byte."""
    said = b'{"error": {"message":"no"} }'
    async with client(Answers(400, said)) as asking:
        assert said == (await asking.post("/v1/responses/resp_1/cancel")).content


async def test_an_answer_that_breaks_is_an_error_and_not_half_an_answer() -> None:
    """It is reported when it is complete."""
    worker = BreaksAfter(1, KEPT[:9], headers=JSON)
    async with client(worker) as asking:
        with pytest.raises(ReplyBroken):
            await asking.get("/v1/responses/resp_1")

    assert worker.replies[0].closed


async def test_the_events_of_a_response_in_the_making_are_passed_on() -> None:
    """Whole, whatever the network made of them."""
    worker = Streams(DELTA[:9], DELTA[9:] + COMPLETED[:5], COMPLETED[5:-1])
    async with client(worker) as asking:
        response = await asking.get("/v1/responses/resp_1?stream=true")

    assert DELTA + COMPLETED[:-1] == response.content
    assert ("text/event-stream", "no") == (response.headers["content-type"], response.headers["x-accel-buffering"])
    assert worker.replies[0].closed


async def test_events_that_break_off_end_with_an_error_event() -> None:
    """The status is out; the number is the next."""
    worker = BreaksAfter(2, DELTA, COMPLETED[:9])
    async with client(worker) as asking:
        response = await asking.get("/v1/responses/resp_1?stream=true")
    last = json.loads(response.content.removeprefix(DELTA + b"event: error\ndata: "))

    assert ("error", "the connection was cut", 7) == (last["type"], last["message"], last["sequence_number"])
    assert worker.replies[0].closed


async def test_an_error_event_never_lands_inside_another() -> None:
    long = b"data: " + b"x" * 2**21
    async with client(BreaksAfter(1, long)) as asking:
        response = await asking.get("/v1/responses/resp_1?stream=true")

    assert response.content.startswith(long + b"\n\nevent: error\n")


async def test_a_caller_who_leaves_ends_the_reply() -> None:
    """Before its first event, and after."""
    for pieces in ([DELTA], [b": nothing yet\n\n", DELTA]):
        worker = Hangs(*pieces)
        caller = Caller(method="GET", path="/v1/responses/resp_1", headers=[(b"x-request-id", b"r-1")])
        caller.leave()
        await caller.call(the_api(worker))

        assert worker.replies[0].closed


# ---- guardrails


@asynccontextmanager
async def guarded(worker: Fake, action: Action = "redact") -> AsyncIterator[httpx.AsyncClient]:
    in_force = GuardedModels()
    rules = {"pii": a_rule(a_filter(action=action))}
    in_force.use({"tiny": ModelGuards(rules, ["pii"], model="tiny", counters=GuardrailCounters())})
    api = the_api(worker)
    api.state.kept_responses = KeptResponses(the_models(a_model(worker)), ResponseOwners(), in_force)
    transport = httpx.ASGITransport(api, raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers={"x-request-id": "r-1"}
    ) as client:
        yield client


async def test_a_kept_response_comes_without_what_is_redacted() -> None:
    """A worker keeps it as the model made it."""
    async with guarded(Answers(200, b'{"id":"resp_1","output":[{"text":"to jane.doe@example.org"}]}')) as asking:
        response = await asking.get("/v1/responses/resp_1")

    assert [{"text": "to [EMAIL]"}] == response.json()["output"]


@pytest.mark.parametrize(("action", "said"), [("redact", "to [EMAIL]"), ("block", "to ")])
async def test_a_response_that_is_still_made_comes_without_it_too(action: Action, said: str) -> None:
    deltas = [
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"%b"}\n\n' % piece
        for piece in (b"to ", b"jane.doe@", b"example.org")
    ]
    async with guarded(Streams(*deltas, COMPLETED), action) as asking:
        response = await asking.get("/v1/responses/resp_1?stream=true")

    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    assert said == "".join([event.get("delta", "") for event in events])
    assert ("error" if action == "block" else "response.completed") == events[-1]["type"]


async def test_streams_name_the_model_as_the_caller_knows_it() -> None:
    """In every event that names it."""
    began = (
        b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1","model":"org/tiny"}}\n\n'
    )
    async with client(Streams(began, DELTA, COMPLETED), upstream_name="org/tiny") as asking:
        response = await asking.get("/v1/responses/resp_1?stream=true")

    assert began.replace(b"org/tiny", b"tiny") + DELTA + COMPLETED == response.content


async def test_refusals_of_workers_keep_their_words() -> None:
    """Only an answer is renamed."""
    async with client(
        Answers(400, b'{"model":"org/tiny","error":{"message":"no"}}'), upstream_name="org/tiny"
    ) as asking:
        response = await asking.get("/v1/responses/resp_1")

    assert (400, b'{"model":"org/tiny","error":{"message":"no"}}') == (response.status_code, response.content)
