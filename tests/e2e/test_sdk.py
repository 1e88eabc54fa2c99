"""The official OpenAI SDK as a client of the gateway: what applications get from it without knowing of us."""

import asyncio
import base64
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    AsyncOpenAI,
    BadRequestError,
    DefaultAsyncHttpxClient,
    DefaultHttpxClient,
    InternalServerError,
    NotFoundError,
    OpenAI,
    RateLimitError,
)
from openai.types.chat import ChatCompletionChunk

from simulator.options import SimulatorOptions
from tests.e2e.stack import HELD_KEY, Stack, stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLOW = SimulatorOptions(port=0, tpot_ms=20)
LONG_ANSWER = {"max_tokens": 5000, "extra_body": {"ignore_eos": True}}
"""Takes a hundred seconds of a `SLOW` worker: one that is free before was asked to stop."""

WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a town",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quick_stack() -> AsyncIterator[Stack]:
    async with stack(1) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slow_stack() -> AsyncIterator[Stack]:
    async with stack(1, options=SLOW) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def served(quick_stack: Stack) -> Stack:
    """A gateway with one worker that is well and remembers nothing; one for the file, as its start takes a while."""
    return await afresh(quick_stack)


@pytest_asyncio.fixture(loop_scope="module")
async def slowly(slow_stack: Stack) -> Stack:
    return await afresh(slow_stack)


async def afresh(started: Stack) -> Stack:
    await started.fault(started.workers[0], "none")
    await started.http.post(f"{started.workers[0]}/control/reset")
    return started


def chat(text: str = "hi", **more: Any) -> dict[str, Any]:
    """Arguments of `chat.completions.create`."""
    return {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": text}], **more}


def blocking(base_url: str) -> OpenAI:
    """The SDK's client without asyncio; it is used in a thread, since the gateway has the loop of the test."""
    return OpenAI(base_url=base_url, api_key=HELD_KEY, max_retries=0, http_client=DefaultHttpxClient(verify=False))


def another(base_url: str) -> AsyncOpenAI:
    """A client with a base URL of its own."""
    return AsyncOpenAI(
        base_url=base_url, api_key=HELD_KEY, max_retries=0, http_client=DefaultAsyncHttpxClient(verify=False)
    )


async def sent(served: Stack) -> list[dict[str, Any]]:
    """The bodies that the worker got, oldest first."""
    return [json.loads(base64.b64decode(request["body"])) for request in await served.served(served.workers[0])]


async def running(served: Stack) -> float:
    """Requests that the engine computes, by its own metrics."""
    lines = (await served.http.get(f"{served.workers[0]}/metrics")).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("vllm:num_requests_running{"))


async def until_busy(served: Stack) -> None:
    async with asyncio.timeout(60):
        while await running(served) == 0:
            await asyncio.sleep(0.01)


async def until_free(served: Stack) -> None:
    async with asyncio.timeout(60):
        while await running(served) > 0:
            await asyncio.sleep(0.01)


async def collect(chunks: AsyncIterable[ChatCompletionChunk], texts: list[str]) -> None:
    """The texts of a stream that may end by an error."""
    async for chunk in chunks:
        texts.extend(choice.delta.content for choice in chunk.choices if choice.delta.content)


# Streams


async def test_a_stream_is_iterated_to_its_end(served: Stack) -> None:
    """Role first, then the text, one reason to finish, one id; the loop ends by itself, and no usage came unasked."""
    chunks = [chunk async for chunk in await served.openai.chat.completions.create(**chat(stream=True))]

    choices = [chunk.choices[0] for chunk in chunks]
    assert "assistant" == choices[0].delta.role
    assert 8 == sum(1 for choice in choices if choice.delta.content)
    assert [None] * (len(choices) - 1) + ["length"] == [choice.finish_reason for choice in choices]
    assert 1 == len({chunk.id for chunk in chunks})
    assert {None} == {chunk.usage for chunk in chunks}


async def test_usage_comes_last_where_it_is_asked_for(served: Stack) -> None:
    """One more chunk, without choices, and the same numbers as in an answer that does not stream."""
    whole = await served.openai.chat.completions.create(**chat())
    stream = await served.openai.chat.completions.create(**chat(stream=True, stream_options={"include_usage": True}))
    *before, last = [chunk async for chunk in stream]

    assert {None} == {chunk.usage for chunk in before}
    assert [] == last.choices
    assert last.usage is not None
    assert whole.usage is not None
    assert 8 == last.usage.completion_tokens
    assert whole.usage.prompt_tokens == last.usage.prompt_tokens
    assert whole.usage.total_tokens == last.usage.total_tokens


async def test_the_stream_helper_reports_events_and_the_final_completion(served: Stack) -> None:
    """`chat.completions.stream` as a context manager: text as it grows, and in the end what a whole answer says."""
    arguments = chat(max_tokens=300)  # the helper raises for an answer that its limit cut short
    whole = await served.openai.chat.completions.create(**arguments)
    async with served.openai.chat.completions.stream(**arguments, stream_options={"include_usage": True}) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_completion()

    assert whole.choices[0].message.content == final.choices[0].message.content
    assert "".join(event.delta for event in events if event.type == "content.delta") == whole.choices[0].message.content
    assert "content.done" in {event.type for event in events}
    assert "stop" == final.choices[0].finish_reason
    assert final.usage is not None
    assert whole.usage.completion_tokens == final.usage.completion_tokens


async def test_text_completions_stream_too(served: Stack) -> None:
    """The same text, in pieces."""
    arguments: dict[str, Any] = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 6}
    whole = await served.openai.completions.create(**arguments)
    pieces = [chunk.choices[0].text async for chunk in await served.openai.completions.create(**arguments, stream=True)]

    assert whole.choices[0].text == "".join(pieces)
    assert 6 == len(pieces)


async def test_leaving_a_stream_early_stops_the_worker(slowly: Stack) -> None:
    """`async with`, `break`: the engine is free, and the client is of use for the next request."""
    async with await slowly.openai.chat.completions.create(**chat(stream=True) | LONG_ANSWER) as stream:
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        assert 1 == await running(slowly)

    await until_free(slowly)
    answer = await slowly.openai.chat.completions.create(**chat(max_tokens=1))

    assert answer.choices[0].message.content
    assert ["aborted", "finished"] == [entry["state"] for entry in await slowly.served(slowly.workers[0])]


async def test_closing_a_stream_stops_the_worker(slowly: Stack) -> None:
    """`close()` says so without a context manager."""
    stream = await slowly.openai.chat.completions.create(**chat(stream=True) | LONG_ANSWER)
    await anext(aiter(stream))
    await until_busy(slowly)
    await stream.close()

    await until_free(slowly)


async def test_the_client_without_asyncio_streams_and_leaves_early(slowly: Stack) -> None:
    """`for`, `with` and `break`."""

    def use() -> tuple[str, str]:
        with blocking(f"{slowly.url}/v1") as client:
            chunks = client.chat.completions.create(**chat(stream=True))
            streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            with client.chat.completions.create(**chat(stream=True) | LONG_ANSWER) as stream:
                first = next(iter(stream))
            return streamed, first.choices[0].delta.role

    whole = await slowly.openai.chat.completions.create(**chat())
    streamed, role = await asyncio.to_thread(use)

    assert whole.choices[0].message.content == streamed
    assert "assistant" == role
    await until_free(slowly)


# Retries


async def test_a_503_is_asked_again_when_the_gateway_said(served: Stack) -> None:
    """The SDK waits for the two seconds of our retry-after, counts its attempt, and the caller notices nothing."""
    await served.fault(served.workers[0], "status", status=503, count=1)
    started = time.monotonic()
    reply = await served.openai.with_options(max_retries=2).chat.completions.with_raw_response.create(**chat())
    took_s = time.monotonic() - started
    entries = await served.served(served.workers[0])

    assert reply.parse().choices[0].message.content
    assert 1 == reply.retries_taken
    assert 2.0 <= took_s < 20
    assert ["failed", "finished"] == [entry["state"] for entry in entries]
    assert ["0", "1"] == [dict(entry["headers"])["x-stainless-retry-count"] for entry in entries]


async def test_a_500_is_asked_again_before_the_stream_begins(served: Stack) -> None:
    """What fails before the first byte is a status, also for a stream, so the SDK can ask again."""
    await served.fault(served.workers[0], "status", status=500, count=1)
    stream = await served.openai.with_options(max_retries=1).chat.completions.create(**chat(stream=True))
    chunks = [chunk async for chunk in stream]

    assert "length" == chunks[-1].choices[0].finish_reason
    assert ["failed", "finished"] == [entry["state"] for entry in await served.served(served.workers[0])]


async def test_retries_end_with_the_last_error(served: Stack) -> None:
    """One more request for each of max_retries, then the error of the last."""
    await served.fault(served.workers[0], "status", status=500)
    with pytest.raises(InternalServerError):
        await served.openai.with_options(max_retries=1).chat.completions.create(**chat())

    assert 2 == len(await served.served(served.workers[0]))


async def test_what_the_caller_did_wrong_is_not_asked_again() -> None:
    """400 by gateway and worker, 404, 413 and 415: one request each, whatever max_retries is."""
    async with stack(1, server={"max_body_bytes": 10_000}) as served:
        client = served.openai.with_options(max_retries=3)
        for arguments in (
            chat(messages=[]),
            chat(max_tokens=10_000_000),
            chat(model="gpt-9"),
            chat("x" * 20_000),
            chat(extra_headers={"content-type": "text/plain"}),
        ):
            with pytest.raises(APIStatusError):
                await client.chat.completions.create(**arguments)

        assert [400, 400, 404, 413, 415] == [line["status"] for line in await served.lines(5)]


async def test_a_stream_that_has_begun_is_not_asked_again(served: Stack) -> None:
    """A second answer after half of the first would be nonsense."""
    await served.fault(served.workers[0], "abort_mid_stream", after_tokens=2)
    stream = await served.openai.with_options(max_retries=3).chat.completions.create(**chat(stream=True))
    with pytest.raises(APIError):
        await collect(stream, [])

    assert 1 == len(await served.served(served.workers[0]))


# Errors


async def test_a_field_that_is_wrong_is_a_bad_request_that_names_it(served: Stack) -> None:
    with pytest.raises(BadRequestError) as by_gateway:
        await served.openai.chat.completions.create(**chat(messages=[]))
    with pytest.raises(BadRequestError) as by_worker:
        await served.openai.chat.completions.create(**chat(max_tokens=10_000_000))

    assert ("messages", None) == (by_gateway.value.param, by_gateway.value.code)
    assert "invalid_request_error" == by_gateway.value.type
    assert ("max_tokens", "context_length_exceeded") == (by_worker.value.param, by_worker.value.code)
    assert "BadRequestError" == by_worker.value.type
    for reported in (by_gateway, by_worker):
        assert reported.value.request_id == reported.value.response.headers["x-request-id"]


async def test_refusals_of_the_gateway_have_their_class_and_code() -> None:
    """404 for a model, 413 for a body, 415 for its type; asked for a stream or not."""
    async with stack(1, server={"max_body_bytes": 10_000}) as served:
        create = served.openai.chat.completions.create
        for streams in (False, True):
            with pytest.raises(NotFoundError) as unknown:
                await create(**chat(model="gpt-9", stream=streams))
            with pytest.raises(APIStatusError) as too_large:
                await create(**chat("x" * 20_000, stream=streams))
            with pytest.raises(APIStatusError) as not_json:
                await create(**chat(stream=streams, extra_headers={"content-type": "text/plain"}))

            assert ("model_not_found", "model") == (unknown.value.code, unknown.value.param)
            assert (413, "request_too_large") == (too_large.value.status_code, too_large.value.code)
            assert (415, "unsupported_media_type") == (not_json.value.status_code, not_json.value.code)


async def test_a_body_far_too_large_is_reported_so_while_it_is_being_sent() -> None:
    """Eight megabytes where ten kilobytes are allowed: 413, not a broken pipe; the client goes on."""
    async with stack(1, server={"max_body_bytes": 10_000}) as served:
        with pytest.raises(APIStatusError) as reported:
            await served.openai.chat.completions.create(**chat("x" * 8 * 2**20))

        assert 413 == reported.value.status_code
        assert (await served.openai.chat.completions.create(**chat())).choices


async def test_failures_of_workers_have_the_class_of_their_status(served: Stack) -> None:
    """429, 500, 502, 503 and 504; a worker that refuses the gateway's own key is no 401 of the caller."""
    expected: list[tuple[int, int, type[APIStatusError], str | None]] = [
        (429, 429, RateLimitError, "2"),
        (500, 500, InternalServerError, None),
        (502, 502, InternalServerError, None),
        (503, 503, InternalServerError, "2"),
        (504, 504, InternalServerError, None),
        (401, 502, InternalServerError, None),
    ]
    for status, reported_status, kind, retry_after in expected:
        await served.fault(served.workers[0], "status", status=status)
        for streams in (False, True):
            with pytest.raises(APIStatusError) as reported:
                await served.openai.chat.completions.create(**chat(stream=streams))

            assert kind is type(reported.value)
            assert reported_status == reported.value.status_code
            assert retry_after == reported.value.response.headers.get("retry-after")
            assert ("upstream_error", "upstream_refused") == (reported.value.type, reported.value.code)


async def test_no_worker_is_a_503_that_says_when_to_come_back(served: Stack) -> None:
    """The caller's SDK raises what it has for 5xx, with our code in it."""
    await served.fault(served.workers[0], "refuse", count=2)  # a kept connection that is reset is replaced once
    with pytest.raises(InternalServerError) as reported:
        await served.openai.chat.completions.create(**chat())

    assert (503, "no_worker_available") == (reported.value.status_code, reported.value.code)
    assert "2" == reported.value.response.headers["retry-after"]


async def test_a_stream_that_breaks_raises_after_what_came(served: Stack) -> None:
    """The text so far is the caller's; then an `APIError` with type and code, since the status was 200 already."""
    await served.fault(served.workers[0], "abort_mid_stream", after_tokens=3)
    stream = await served.openai.chat.completions.create(**chat(stream=True))
    texts: list[str] = []
    with pytest.raises(APIError, match=r"broke|closed|cut|lost|ended") as reported:
        await collect(stream, texts)

    assert APIError is type(reported.value)
    assert ("upstream_error", "upstream_broken") == (reported.value.type, reported.value.code)
    assert 3 == len(texts)


async def test_the_stream_helper_raises_when_the_stream_breaks(served: Stack) -> None:
    """Half an answer is no final completion."""
    await served.fault(served.workers[0], "abort_mid_stream", after_tokens=3)
    with pytest.raises(APIError, match=r"broke|closed|cut|lost|ended"):
        async with served.openai.chat.completions.stream(**chat()) as stream:
            await stream.get_final_completion()


async def test_a_gateway_that_is_not_there_is_a_connection_error() -> None:
    """Nothing listens on the port."""
    with contextlib.closing(socket.socket()) as reserved:
        reserved.bind(("127.0.0.1", 0))
        async with another(f"http://127.0.0.1:{reserved.getsockname()[1]}/v1") as client:
            with pytest.raises(APIConnectionError) as reported:
                await client.chat.completions.create(**chat())

    assert APIConnectionError is type(reported.value)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_caller_that_waits_no_longer_gets_a_timeout_and_frees_the_worker(slowly: Stack, streams: bool) -> None:
    """The SDK's own timeout, before the first byte: the prompt alone would take the worker minutes."""
    await slowly.fault(slowly.workers[0], "slow", factor=100)
    client = slowly.openai.with_options(timeout=5.0)
    with pytest.raises(APITimeoutError):
        await client.chat.completions.create(**chat("e " * 50_000, stream=streams))

    await until_free(slowly)
    assert ["aborted"] == [entry["state"] for entry in await slowly.served(slowly.workers[0])]


# Raw responses


async def test_a_raw_response_has_our_headers_and_the_answer() -> None:
    async with stack(2) as served:
        reply = await served.openai.chat.completions.with_raw_response.create(**chat())
        answer = reply.parse()

        assert reply.headers["x-warmgate-worker"] in served.workers
        assert "prefix_aware" == reply.headers["x-warmgate-strategy"]
        assert "0" == reply.headers["x-warmgate-hit-blocks"]
        assert reply.request_id == reply.headers["x-request-id"] == answer._request_id
        assert f"chatcmpl-{reply.request_id}" == answer.id
        assert "application/json" == reply.headers["content-type"]


async def test_the_callers_request_id_comes_back_as_request_id(served: Stack) -> None:
    """On answers, errors and lists alike."""
    named: dict[str, Any] = {"extra_headers": {"x-request-id": "order-66"}}
    answer = await served.openai.chat.completions.create(**chat(), **named)
    models = await served.openai.models.list(**named)
    with pytest.raises(NotFoundError) as reported:
        await served.openai.chat.completions.create(**chat(model="gpt-9"), **named)

    assert "order-66" == answer._request_id
    assert "order-66" == models._request_id
    assert "order-66" == reported.value.request_id


async def test_a_streaming_response_has_its_headers_before_its_body(slowly: Stack) -> None:
    """While the worker still computes the rest; and the lines are server-sent events."""
    asking = slowly.openai.chat.completions.with_streaming_response.create(**chat(stream=True) | LONG_ANSWER)
    async with asking as reply:
        assert 1 == await running(slowly)
        assert slowly.workers == [reply.headers["x-warmgate-worker"]]
        assert reply.headers["content-type"].startswith("text/event-stream")
        first = await anext(aiter(reply.iter_lines()))

    assert first.startswith("data: {")
    await until_free(slowly)


# The asynchronous client


async def test_one_client_asks_many_things_at_once() -> None:
    """30 requests, every second one a stream: each gets the answer to its own question."""
    async with stack(2) as served:

        async def ask(number: int, *, streams: bool) -> str:
            if not streams:
                whole = await served.openai.chat.completions.create(**chat(f"question {number}"))
                return str(whole.choices[0].message.content)
            stream = await served.openai.chat.completions.create(**chat(f"question {number}", stream=True))
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

        mixed = await asyncio.gather(*(ask(i, streams=i % 2 == 0) for i in range(30)))
        swapped = await asyncio.gather(*(ask(i, streams=i % 2 == 1) for i in range(30)))

        assert mixed == swapped
        assert 30 == len(set(mixed))


@pytest.mark.parametrize("streams", [False, True])
async def test_a_cancelled_task_frees_the_worker(slowly: Stack, streams: bool) -> None:
    """`task.cancel()`, while it waits for a whole answer or reads a stream; nothing stays counted in the gateway."""

    texts: list[str] = []

    async def ask() -> None:
        answer = await slowly.openai.chat.completions.create(**chat(stream=streams) | LONG_ANSWER)
        await collect(answer, texts)

    task = asyncio.ensure_future(ask())
    await until_busy(slowly)
    while streams and not texts:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    await until_free(slowly)
    async with asyncio.timeout(60):
        while {0.0} != set((await slowly.metric("warmgate_worker_in_flight")).values()):
            await asyncio.sleep(0.01)
    assert {0.0} == set((await slowly.metric("warmgate_requests_in_flight")).values())


# What the worker gets


async def test_every_option_of_the_sdk_reaches_the_worker_unchanged(served: Stack) -> None:
    """Tools, JSON mode, log probabilities, choices and sampling: the gateway need not know of any."""
    options: dict[str, Any] = {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Answer in JSON."},
            {"role": "user", "content": [{"type": "text", "text": "café ☕"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        ],
        "tools": [WEATHER_TOOL],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
        "logprobs": True,
        "top_logprobs": 3,
        "n": 2,
        "temperature": 0.7,
        "top_p": 1e-3,
        "seed": 42,
        "stop": ["\n\n", "END"],
        "logit_bias": {"50256": -100},
        "max_completion_tokens": 5,
        "metadata": {"trace": "a"},
        "user": "u-1",
    }
    whole = await served.openai.chat.completions.create(**options)
    stream = await served.openai.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
    indices = {choice.index async for chunk in stream for choice in chunk.choices}
    first, second = await sent(served)

    assert [0, 1] == [choice.index for choice in whole.choices]
    assert {0, 1} == indices
    assert options == first
    assert options | {"stream": True, "stream_options": {"include_usage": True}} == second


async def test_unknown_fields_of_extra_body_survive(served: Stack) -> None:
    """What an engine has and OpenAI has not; also nested, and null."""
    extra = {"top_k": 20, "min_p": 0.05, "x_vendor": {"deep": [1, None, {"a": "b"}]}, "nothing": None}
    await served.openai.chat.completions.create(**chat(extra_body=extra))
    (body,) = await sent(served)

    assert extra == {name: body[name] for name in extra}


async def test_completions_take_token_ids(served: Stack) -> None:
    """One prompt of ids, or several; and give ids where the engine is asked for them."""
    one = await served.openai.completions.create(
        model="tiny", prompt=[11, 22, 33], max_tokens=2, extra_body={"return_token_ids": True}
    )
    several = await served.openai.completions.create(
        model="tiny", prompt=[[11, 22, 33], [44, 55]], max_tokens=2, logprobs=1, echo=False
    )
    first, second = await sent(served)

    assert [11, 22, 33] == first["prompt"]
    assert [[11, 22, 33], [44, 55]] == second["prompt"]
    assert (1, False) == (second["logprobs"], second["echo"])
    assert one.choices[0].model_extra is not None
    assert [11, 22, 33] == one.choices[0].model_extra["prompt_token_ids"]
    assert 2 == len(one.choices[0].model_extra["token_ids"])
    assert one.usage is not None
    assert 3 == one.usage.prompt_tokens
    assert [0, 1] == [choice.index for choice in several.choices]
    assert one.choices[0].text == several.choices[0].text


# Addresses and models


@pytest.mark.parametrize("ending", ["/v1", "/v1/"])
async def test_a_base_url_may_end_in_a_slash(served: Stack, ending: str) -> None:
    """Both are what people write."""
    async with another(served.url + ending) as client:
        answer = await client.chat.completions.create(**chat())
        models = [model.id async for model in client.models.list()]

    assert answer.choices[0].message.content
    assert ["tiny", "gpt-4o"] == models


async def test_a_base_url_without_v1_is_served(served: Stack) -> None:
    """With another one the error names the path that is served."""
    async with another(served.url) as client:
        assert (await client.chat.completions.create(**chat())).choices
    async with another(f"{served.url}/openai") as client:
        with pytest.raises(NotFoundError, match="did you mean /v1/chat/completions") as reported:
            await client.chat.completions.create(**chat())

    assert "unknown_url" == reported.value.code


async def test_models_are_listed_and_retrieved() -> None:
    """Also one with a slash in its name, which the SDK escapes; an unknown one is a NotFoundError."""
    async with stack(1, model={"aliases": ["org/tiny-1b"]}) as served:
        listed = await served.openai.models.list()
        one = await served.openai.models.retrieve("org/tiny-1b")
        with pytest.raises(NotFoundError) as reported:
            await served.openai.models.retrieve("gpt-9")

        assert ["tiny", "org/tiny-1b"] == [model.id for model in listed.data]
        assert ("org/tiny-1b", "model", "warmgate") == (one.id, one.object, one.owned_by)
        assert ("model_not_found", "model") == (reported.value.code, reported.value.param)
