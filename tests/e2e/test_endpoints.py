"""Every endpoint that simulated workers have, through the real gateway."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gateway.protocol.endpoints.table import ENDPOINTS
from tests.e2e.stack import Stack, quick, stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

AUDIO = b"RIFF" + bytes(range(256)) * 200
TEXT = "Once upon a time there was a worker whose cache was warm. " * 8

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 6},
    "/v1/completions": {"prompt": TEXT, "max_tokens": 6},
    "/v1/responses": {"input": TEXT, "max_output_tokens": 6},
    "/v1/messages": {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 6},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": TEXT}]},
    "/v1/embeddings": {"input": [TEXT, "short"]},
    "/v1/rerank": {"query": TEXT, "documents": ["a", "b"]},
    "/rerank": {"query": TEXT, "documents": ["a", "b"]},
    "/v2/rerank": {"query": TEXT, "documents": ["a", "b"]},
    "/v1/score": {"text_1": TEXT, "text_2": ["a", "b"]},
    "/score": {"queries": TEXT, "documents": ["a", "b"]},
    "/tokenize": {"prompt": TEXT},
    "/detokenize": {"tokens": [300, 301, 302]},
}
FORM = "/v1/audio/transcriptions"
GENERATES = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]
POOLS = ["/v1/embeddings", "/v1/rerank", "/rerank", "/v2/rerank", "/v1/score", "/score"]
TOKENIZES = ["/tokenize", "/detokenize", "/v1/messages/count_tokens"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def three_workers() -> AsyncIterator[Stack]:
    # The breakers stay closed: what one test breaks is not one of the next one's business.
    async with stack(3, model={"strategy": "round_robin"}, breaker={"failures": 1000}) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def served(three_workers: Stack) -> Stack:
    """A gateway with three workers that are well and remember nothing but responses."""
    for worker in three_workers.workers:
        await three_workers.fault(worker, "none")
        await three_workers.http.post(f"{worker}/control/reset")
    await three_workers.metric("warmgate_requests_total")  # a scrape settles what was asked before
    three_workers.log.seek(0)
    three_workers.log.truncate()
    return three_workers


async def ask(served: Stack, path: str, *, model: str = "tiny", **more: Any) -> httpx.Response:
    """A request for *path* with its body of `BODIES`, or the form."""
    if path == FORM:
        fields = {"model": model, **{name: str(value).lower() for name, value in more.items()}}
        return await served.http.post(path, data=fields, files={"file": ("a.wav", AUDIO, "audio/wav")})
    return await served.http.post(path, json={"model": model, **BODIES[path], **more})


async def line(served: Stack) -> dict[str, Any]:
    (only,) = await served.lines(1)
    return only


async def upstream(served: Stack) -> dict[str, Any]:
    """The one request that a worker has got."""
    (request,) = [request for worker in served.workers for request in await served.served(worker)]
    return request


def events(text: str) -> list[dict[str, Any]]:
    """The data of a stream but for `[DONE]`."""
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(each) for each in data if each != "[DONE]"]


def text_of(path: str, answer: dict[str, Any]) -> str:
    match path:
        case "/v1/chat/completions":
            return str(answer["choices"][0]["message"]["content"])
        case "/v1/completions":
            return str(answer["choices"][0]["text"])
        case "/v1/responses":
            return str(answer["output"][0]["content"][0]["text"])
        case "/v1/messages":
            return str(answer["content"][0]["text"])
    return str(answer["text"])


def streamed_text_of(path: str, chunks: list[dict[str, Any]]) -> str:
    match path:
        case "/v1/responses":
            return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "response.output_text.delta")
        case "/v1/messages":
            return "".join(chunk["delta"]["text"] for chunk in chunks if chunk["type"] == "content_block_delta")
        case "/v1/completions":
            return "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


async def test_every_endpoint_is_asked_here() -> None:
    """Anyone who adds one finds this."""
    assert set(ENDPOINTS) >= {*BODIES, FORM}
    assert {*GENERATES, *POOLS, *TOKENIZES} == set(BODIES)


# ---- answers


@pytest.mark.parametrize("path", [*BODIES, FORM])
async def test_the_answer_is_the_workers(served: Stack, path: str) -> None:
    """The same as without a gateway, but for ids and times."""
    through = await ask(served, path)
    direct = await ask_directly(served, path)

    assert 200 == through.status_code, through.text
    assert comparable(direct.json()) == comparable(through.json())
    assert through.headers["x-warmgate-worker"] in served.workers
    assert "application/json" == through.headers["content-type"]


async def ask_directly(served: Stack, path: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=served.workers[0], timeout=60, verify=False) as client:
        if path == FORM:
            return await client.post(path, data={"model": "tiny"}, files={"file": ("a.wav", AUDIO, "audio/wav")})
        return await client.post(path, json={"model": "tiny", **BODIES[path]})


def comparable(answer: dict[str, Any]) -> str:
    """Without what is another one each time, or depends on the cache of the worker."""
    varying = {"id", "created", "created_at", "cached_tokens", "usage"}

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without(each) for name, each in value.items() if name not in varying}
        return [without(each) for each in value] if isinstance(value, list) else value

    return json.dumps(without(answer))


@pytest.mark.parametrize("path", [*GENERATES, FORM])
async def test_a_stream_says_the_same_as_the_whole_answer(served: Stack, path: str) -> None:
    """In the events of its API; and `[DONE]` once, where the API has one."""
    whole = await ask(served, path)
    streamed = await ask(served, path, stream=True)

    assert text_of(path, whole.json()) == streamed_text_of(path, events(streamed.text))
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert (0 if path in {"/v1/responses", "/v1/messages"} else 1) == streamed.text.count("[DONE]")


async def test_pooled_numbers_reach_the_sdk(served: Stack) -> None:
    """It asks for base64 and reads floats."""
    embeddings = await served.openai.embeddings.create(model="gpt-4o", input=["one", "two"])

    assert [64, 64] == [len(each.embedding) for each in embeddings.data]
    assert embeddings.data[0].embedding != embeddings.data[1].embedding


@pytest.mark.parametrize("path", ["/v1/rerank", "/v1/score"])
async def test_an_endpoint_that_the_model_does_not_have_is_named(path: str) -> None:
    """With what a model of that kind has instead; the engine itself says no more than "Not Found"."""
    async with stack(1, options=quick(dialect="sglang", health_delay_s=0.0)) as served:
        answer = await served.http.post(path, json={"model": "gpt-4o", **BODIES[path]})

    message = (
        f"The model 'gpt-4o' does not serve {path}: its engine has no such endpoint. A model that generates text has "
        "/v1/chat/completions and /v1/completions. Embeddings, rankings, scores and classes need a pooling model."
    )
    expected = {"message": message, "type": "invalid_request_error", "param": None, "code": "endpoint_not_supported"}
    assert (404, {"error": expected}) == (answer.status_code, answer.json())


async def test_a_text_survives_the_tokenizer(served: Stack) -> None:
    """What one of the endpoints makes, the other takes."""
    tokens = (await ask(served, "/tokenize")).json()["tokens"]
    text = await served.http.post("/detokenize", json={"model": "tiny", "tokens": tokens})

    assert TEXT == text.json()["prompt"]


# ---- what learns of them


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", GENERATES)
async def test_usage_stands_in_the_line(served: Stack, path: str, stream: bool) -> None:
    await ask(served, path, stream=stream)
    reported = await line(served)

    assert (path, 200, stream, "tiny", None) == (
        reported["path"],
        reported["status"],
        reported["stream"],
        reported["model"],
        reported["error"],
    )
    assert 6 == reported["completion_tokens"]
    assert reported["prompt_tokens"] >= len(TEXT) / 4
    assert (reported["ttft_ms"] is not None) == stream


@pytest.mark.parametrize("path", POOLS)
async def test_pooled_tokens_stand_in_the_line(served: Stack, path: str) -> None:
    """Nothing is generated, and nothing of it is in a cache that could be hit."""
    for _ in range(2):
        await ask(served, path)
    _, reported = await served.lines(2)

    assert (0, 0) == (reported["completion_tokens"], reported["hit_blocks"])
    assert reported["prompt_tokens"] >= len(TEXT) / 4


@pytest.mark.parametrize("path", [*TOKENIZES, FORM])
async def test_what_has_no_tokens_has_none_in_the_line(served: Stack, path: str) -> None:
    """Audio is counted in seconds, and tokens that are only counted cost nothing."""
    await ask(served, path)
    reported = await line(served)

    assert (None, None, 0, None) == (
        reported["prompt_tokens"],
        reported["completion_tokens"],
        reported["prompt_blocks"],
        reported["error"],
    )


# ---- names


@pytest.mark.parametrize("path", [path for path in BODIES if path not in TOKENIZES])
async def test_an_alias_becomes_the_workers_name(served: Stack, path: str) -> None:
    reply = await ask(served, path, model="gpt-4o")
    request = await upstream(served)

    assert 200 == reply.status_code
    assert {"model": "tiny", **BODIES[path]} == json.loads(base64.b64decode(request["body"]))


@pytest.mark.parametrize("path", TOKENIZES)
async def test_an_alias_works_where_nothing_is_logged(served: Stack, path: str) -> None:
    """A worker knows its model by one name only, and says 404 to others."""
    assert 200 == (await ask(served, path, model="gpt-4o")).status_code


async def test_an_alias_in_a_form_becomes_the_workers_name(served: Stack) -> None:
    """The file is untouched, the boundary is the caller's."""
    boundary = "a-boundary-of-mine"
    parts = [
        b'Content-Disposition: form-data; name="file"; filename="model.wav"\r\n\r\n' + AUDIO,
        b'Content-Disposition: form-data; name="model"\r\n\r\ngpt-4o',
        b'Content-Disposition: form-data; name="prompt"\r\n\r\nmodel=gpt-4o',
    ]
    form = b"".join(b"--%b\r\n%b\r\n" % (boundary.encode(), part) for part in parts) + b"--%b--\r\n" % boundary.encode()
    reply = await served.http.post(
        FORM, content=form, headers={"content-type": f'multipart/form-data; boundary="{boundary}"'}
    )
    request = await upstream(served)

    assert 200 == reply.status_code, reply.text
    assert form.replace(b"\r\n\r\ngpt-4o\r\n", b"\r\n\r\ntiny\r\n") == base64.b64decode(request["body"])
    assert ["content-type", f'multipart/form-data; boundary="{boundary}"'] in [
        list(each) for each in request["headers"]
    ]


# ---- errors


def fault_in(path: str, reply: httpx.Response) -> str:
    """The message of an error, which has the shape of the endpoint's API."""
    said = reply.json()
    if path.startswith("/v1/messages"):
        assert "error" == said["type"]
        assert {"type", "message"} == set(said["error"])
        assert reply.headers["request-id"] == reply.headers["x-request-id"]
    else:
        assert {"message", "type", "param", "code"} == set(said["error"])
    return str(said["error"]["message"])


@pytest.mark.parametrize("path", BODIES)
async def test_the_gateways_errors_have_the_shape_of_the_api(served: Stack, path: str) -> None:
    """For a body that is not one, a model that is unknown, one that cannot be, a method that is not served."""
    malformed = await served.http.post(path, content=b'{"model": ', headers={"content-type": "application/json"})
    unknown = await ask(served, path, model="gpt-5")
    misnamed = await served.http.post(path, json={**BODIES[path], "model": 5})
    wrong_method = await served.http.get(path)

    assert [400, 404, 400, 405] == [reply.status_code for reply in (malformed, unknown, misnamed, wrong_method)]
    assert "JSON is malformed" in fault_in(path, malformed)
    assert "'gpt-5'" in fault_in(path, unknown)
    assert "'model'" in fault_in(path, misnamed)
    assert "accepts POST" in fault_in(path, wrong_method)


@pytest.mark.parametrize("path", BODIES)
async def test_the_only_model_need_not_be_named(served: Stack, path: str) -> None:
    """Its worker gets the name all the same."""
    reply = await served.http.post(path, json=BODIES[path])

    assert 200 == reply.status_code, reply.text


async def test_a_form_that_is_not_one_is_reported_so(served: Stack) -> None:
    """JSON is another medium; without a model no one knows where to send it."""
    as_json = await served.http.post(FORM, json={"model": "tiny"})
    nameless = await served.http.post(FORM, files={"file": ("a.wav", AUDIO)})
    unknown = await ask(served, FORM, model="gpt-5")

    assert [415, 400, 404] == [reply.status_code for reply in (as_json, nameless, unknown)]
    assert "multipart/form-data" in fault_in(FORM, as_json)
    assert "'model'" in fault_in(FORM, nameless)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [*GENERATES, *POOLS, FORM])
async def test_a_workers_refusal_has_the_shape_of_the_api(served: Stack, path: str, stream: bool) -> None:
    """Its status and its words; no other worker is asked."""
    for worker in served.workers:
        await served.fault(worker, "status", status=422)
    reply = await ask(served, path, stream=stream)

    assert 422 == reply.status_code
    assert "this error was set at /control/faults" == fault_in(path, reply)
    assert ("Refused", 1) == ((await line(served))["error"], (await line(served))["attempts"])


@pytest.mark.parametrize("path", [*GENERATES, *POOLS, FORM])
async def test_one_sick_worker_breaks_no_endpoint(served: Stack, path: str) -> None:
    for mode in ("status", "refuse"):
        await served.fault(served.workers[0], mode, count=9)
        replies = [await ask(served, path) for _ in range(3)]

        assert [200] * 3 == [reply.status_code for reply in replies]
        assert served.workers[0] not in {reply.headers["x-warmgate-worker"] for reply in replies}


@pytest.mark.parametrize("path", GENERATES)
async def test_a_stream_that_breaks_ends_with_an_error_of_its_api(served: Stack, path: str) -> None:
    """After what came of the answer; nothing claims that it is complete."""
    for worker in served.workers:
        await served.fault(worker, "abort_mid_stream", after_tokens=3)
    reply = await ask(served, path, stream=True)
    *before, last = events(reply.text)
    # An event on its own line in the APIs whose events have names.
    named = "event: error\ndata: " in reply.text

    assert streamed_text_of(path, before)
    assert named == (path in {"/v1/responses", "/v1/messages"})
    assert "connection closed" in str(last)
    assert "[DONE]" not in reply.text
    if path == "/v1/responses":
        assert before[-1]["sequence_number"] + 1 == last["sequence_number"]
    assert "ReplyBroken" == (await line(served))["error"]


# ---- responses


async def test_a_conversation_stays_with_the_worker_that_keeps_it(served: Stack) -> None:
    """Three turns of six conversations over three workers: only its own worker knows what each goes on from."""
    homes, last_ids = [], []
    for i in range(6):
        first = await ask(served, "/v1/responses", input=f"conversation {i}", stream=i < 3)
        homes.append(first.headers["x-warmgate-worker"])
        last_ids.append((events(first.text)[0]["response"] if i < 3 else first.json())["id"])

    assert len(set(homes)) > 1

    for turn in range(2):
        replies = [
            await ask(served, "/v1/responses", input=f"turn {turn}", previous_response_id=last_id)
            for last_id in last_ids
        ]
        last_ids = [reply.json()["id"] for reply in replies]

        assert homes == [reply.headers["x-warmgate-worker"] for reply in replies]


async def test_a_kept_response_is_found(served: Stack) -> None:
    """Whatever worker has it; and its cancel is that worker's to refuse."""
    for i in range(3):
        made = (await ask(served, "/v1/responses", input=f"number {i}")).json()
        found = await served.http.get(f"/v1/responses/{made['id']}")
        cancelled = await served.http.post(f"/v1/responses/{made['id']}/cancel")

        assert (200, made) == (found.status_code, found.json())
        assert found.headers["x-request-id"]
        assert 400 == cancelled.status_code
        assert "Cannot cancel a synchronous response." == fault_in("/v1/responses", cancelled)


async def test_the_sdk_retrieves_what_it_made(served: Stack) -> None:
    made = await served.openai.responses.create(model="tiny", input="hi", max_output_tokens=5)
    found = await served.openai.responses.retrieve(made.id)

    assert made.output_text == found.output_text


async def test_a_response_from_before_a_restart_is_found(served: Stack) -> None:
    """A gateway that knows of nothing asks its workers in turn."""
    from tests.e2e.stack import gateway

    made = [(await ask(served, "/v1/responses", input=f"before {i}")).json()["id"] for i in range(3)]
    async with gateway(served.workers) as restarted:
        found = [await restarted.http.get(f"/v1/responses/{response_id}") for response_id in made]

    assert made == [reply.json()["id"] for reply in found]


async def test_an_unknown_response_is_404(served: Stack) -> None:
    """To look at, to cancel, to go on from: in OpenAI's shape, with a request id to ask about."""
    looked = await served.http.get("/v1/responses/resp_unknown")
    cancelled = await served.http.post("/v1/responses/resp_unknown/cancel")
    gone_on = await ask(served, "/v1/responses", previous_response_id="resp_unknown")

    assert [404] * 3 == [reply.status_code for reply in (looked, cancelled, gone_on)]
    assert "The response 'resp_unknown' is not stored by any worker" == fault_in("/v1/responses", looked)
    assert "response_not_found" == cancelled.json()["error"]["code"]
    assert "resp_unknown" in fault_in("/v1/responses", gone_on)
    assert looked.headers["x-request-id"]


async def test_a_response_that_a_silent_worker_may_keep_is_not_404(served: Stack) -> None:
    """The caller is asked to retry."""
    await served.fault(served.workers[2], "refuse")
    reply = await served.http.get("/v1/responses/resp_unknown")

    assert 503 == reply.status_code
    assert "2" == reply.headers["retry-after"]


async def test_a_response_is_gone_with_its_worker() -> None:
    """The keeper has lost its memory, or cannot be reached: neither is hidden."""
    async with stack(2, options=quick()) as served:
        made = (await ask(served, "/v1/responses")).json()["id"]
        (keeper,) = {(await line(served))["worker"]}
        await served.fault(keeper, "refuse")
        looked = await served.http.get(f"/v1/responses/{made}")
        gone_on = await ask(served, "/v1/responses", previous_response_id=made)

        assert [502, 503] == [looked.status_code, gone_on.status_code]
        assert gone_on.headers["retry-after"]
