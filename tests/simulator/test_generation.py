"""The completion endpoints, over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from simulator.options import SimulatorOptions
from simulator.server import serving
from simulator.tokens import END_OF_ANSWER, TokenSequence

HELLO: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}
UNCUT: dict[str, Any] = {"return_token_ids": True, "ignore_eos": True, "max_tokens": 64}
LONG = "All work and no play makes Jack a dull boy. " * 40


@pytest.fixture
async def sdk(worker: httpx.AsyncClient) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{worker.base_url}/v1", api_key="none", max_retries=0) as client:
        yield client


def events(body: str) -> list[dict[str, Any]]:
    """The events of a stream that ended as it should."""
    *lines, done, rest = body.split("\n\n")
    assert ("data: [DONE]", "") == (done, rest)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def answer(worker: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = await worker.post(path, json=body)
    assert 200 == reply.status_code, reply.text
    value: dict[str, Any] = reply.json()
    return value


async def running(worker: httpx.AsyncClient) -> int:
    count: int = (await worker.get("/load")).json()["server_load"]
    return count


async def test_the_sdk_reads_a_chat(sdk: openai.AsyncOpenAI) -> None:
    """OpenAI's own client takes the answer as one of OpenAI's."""
    reply = await sdk.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hello"}])

    assert reply.usage is not None
    assert reply.choices[0].message.content
    assert reply.usage.total_tokens == 12 + reply.usage.completion_tokens


async def test_the_sdk_reads_a_stream(sdk: openai.AsyncOpenAI) -> None:
    """The pieces of a stream are the whole answer, with usage at the end."""
    whole = await sdk.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hello"}])
    stream = await sdk.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "Hello"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    assert whole.choices[0].message.content == text
    assert [] == chunks[-1].choices
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert whole.usage.completion_tokens == chunks[-1].usage.completion_tokens


async def test_the_sdk_reads_a_completion(sdk: openai.AsyncOpenAI) -> None:
    """Sixteen tokens by default."""
    reply = await sdk.completions.create(model="tiny", prompt="Once upon a time")

    assert reply.usage is not None
    assert ("length", 16) == (reply.choices[0].finish_reason, reply.usage.completion_tokens)
    assert 64 == len(reply.choices[0].text)


async def test_the_sdk_reads_an_error(sdk: openai.AsyncOpenAI) -> None:
    """An unknown model is the SDK's not-found error."""
    with pytest.raises(openai.NotFoundError, match="The model `other` does not exist"):
        await sdk.chat.completions.create(model="other", messages=[{"role": "user", "content": "Hello"}])


async def test_the_bytes_of_a_stream(worker: httpx.AsyncClient) -> None:
    """Role first, a chunk per token, the reason with the last one, then the end mark."""
    reply = await worker.post(
        "/v1/chat/completions", json=HELLO | {"stream": True, "max_tokens": 3}, headers={"x-request-id": "abc"}
    )
    chunks = events(reply.text)

    assert "text/event-stream; charset=utf-8" == reply.headers["content-type"]
    assert reply.text.startswith('data: {"id":"chatcmpl-abc","object":"chat.completion.chunk","created":')
    assert {"role": "assistant", "content": ""} == chunks[0]["choices"][0]["delta"]
    assert [None, None, None, "length"] == [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert all("usage" not in chunk for chunk in chunks)


async def test_usage_with_every_chunk(worker: httpx.AsyncClient) -> None:
    """Continuous usage counts the tokens so far; details come with the last usage only."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = HELLO | {"stream": True, "max_tokens": 3, "stream_options": options}
    usages = [event["usage"] for event in events((await worker.post("/v1/chat/completions", json=body)).text)]

    assert [0, 1, 2, 3, 3] == [usage["completion_tokens"] for usage in usages]
    assert [None] * 4 + [{"cached_tokens": 0}] == [usage["prompt_tokens_details"] for usage in usages]


async def test_the_second_time_is_cached(worker: httpx.AsyncClient) -> None:
    """All full blocks but the one that holds the last token."""
    body = {"prompt": LONG, "max_tokens": 1}  # 720 tokens: 45 full blocks
    cached = [
        (await answer(worker, "/v1/completions", body))["usage"]["prompt_tokens_details"]["cached_tokens"]
        for _ in range(2)
    ]

    assert [0, 704] == cached


async def test_a_salt_keeps_callers_apart(worker: httpx.AsyncClient) -> None:
    """The same prompt under another cache salt is a miss, and has the same answer."""
    body = {"prompt": LONG, "max_tokens": 4}
    first = await answer(worker, "/v1/completions", body)
    salted = await answer(worker, "/v1/completions", body | {"cache_salt": "mine"})

    assert 0 == salted["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert first["choices"][0]["text"] == salted["choices"][0]["text"]


async def test_the_next_turn_finds_the_answer_cached(worker: httpx.AsyncClient) -> None:
    """A chat that goes on with the answer it got hits the blocks the answer filled."""
    messages = [{"role": "user", "content": LONG}]
    first = await answer(worker, "/v1/chat/completions", {"messages": messages, "max_tokens": 200, "ignore_eos": True})
    prompt_tokens = first["usage"]["prompt_tokens"]
    messages += [first["choices"][0]["message"], {"role": "user", "content": "Go on"}]
    kept = [{"role": message["role"], "content": message["content"]} for message in messages]
    second = await answer(worker, "/v1/chat/completions", {"messages": kept, "max_tokens": 1})

    assert (prompt_tokens + 199) // 16 * 16 == second["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize("cut", [1, 24, 25, 26, 63])
async def test_a_cut_answer_is_continued_exactly(worker: httpx.AsyncClient, cut: int) -> None:
    """Prompt and answer ids so far, sent as a completion, are answered by the rest of the uncut chat."""
    whole = await answer(worker, "/v1/chat/completions", HELLO | UNCUT)
    ids = whole["choices"][0]["token_ids"]
    rest = await answer(
        worker,
        "/v1/completions",
        {
            "prompt": whole["prompt_token_ids"] + ids[:cut],
            "max_tokens": 64 - cut,
            "ignore_eos": True,
            "return_token_ids": True,
        },
    )

    assert ids[cut:] == rest["choices"][0]["token_ids"]
    assert whole["choices"][0]["message"]["content"].endswith(rest["choices"][0]["text"])


async def test_token_ids_in_a_stream(worker: httpx.AsyncClient) -> None:
    """The prompt's with the first chunk, then one per token; they are the text."""
    body = HELLO | {"stream": True, "return_token_ids": True}
    first, *chunks = events((await worker.post("/v1/chat/completions", json=body)).text)
    ids = [token for chunk in chunks for token in chunk["choices"][0]["token_ids"]]
    text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)

    assert 12 == len(first["prompt_token_ids"])
    assert text == TokenSequence.from_ids(ids).text(skip_marks=True)


async def test_several_prompts_and_choices(worker: httpx.AsyncClient) -> None:
    """Two prompts with two choices each are four texts; the prompts count once."""
    body = {"prompt": ["Once upon", "In a hole"], "n": 2, "max_tokens": 5}
    whole = await answer(worker, "/v1/completions", body)
    streamed = events((await worker.post("/v1/completions", json=body | {"stream": True})).text)
    texts = ["", "", "", ""]
    for event in streamed:
        texts[event["choices"][0]["index"]] += event["choices"][0]["text"]

    assert 4 == len(set(texts))
    assert texts == [choice["text"] for choice in whole["choices"]]
    assert (8, 20) == (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"])


async def test_an_answer_that_ends_by_itself(worker: httpx.AsyncClient) -> None:
    """It stops before the limit; its last token has no text."""
    whole = await answer(worker, "/v1/chat/completions", HELLO | {"max_tokens": 300, "return_token_ids": True})
    unlimited = await answer(worker, "/v1/chat/completions", HELLO | {"return_token_ids": True})
    ids = TokenSequence.from_ids(whole["choices"][0]["token_ids"])

    assert "stop" == whole["choices"][0]["finish_reason"]
    assert whole["choices"] == unlimited["choices"]
    assert END_OF_ANSWER == ids.each()[-1]
    assert whole["choices"][0]["message"]["content"] == ids.text(skip_marks=True)


async def test_half_a_character_is_held_back(worker: httpx.AsyncClient) -> None:
    """Its token comes with no text; cut off there, the answer ends before the character, streamed or not."""
    body = HELLO | {"max_tokens": 25, "ignore_eos": True, "return_token_ids": True}  # the 25th is half of a word
    streamed = events((await worker.post("/v1/chat/completions", json=body | {"stream": True})).text)
    whole = await answer(worker, "/v1/chat/completions", body)
    choices = [event["choices"][0] for event in streamed[1:]]

    assert [4] * 24 + [0] == [len(choice["delta"]["content"]) for choice in choices]
    assert [1] * 25 == [len(choice["token_ids"]) for choice in choices]
    assert "".join(choice["delta"]["content"] for choice in choices) == whole["choices"][0]["message"]["content"]
    assert "length" == choices[-1]["finish_reason"] == whole["choices"][0]["finish_reason"]


async def test_a_chat_goes_on_with_the_text_so_far(worker: httpx.AsyncClient) -> None:
    whole = await answer(worker, "/v1/chat/completions", HELLO | UNCUT)
    text = whole["choices"][0]["message"]["content"]
    said = text.encode()[:140].decode()  # past a character beyond ASCII
    flags = {"continue_final_message": True, "add_generation_prompt": False, "max_tokens": 10, "ignore_eos": True}
    messages = [*HELLO["messages"], {"role": "assistant", "content": said}]
    rest = await answer(worker, "/v1/chat/completions", {"messages": messages, **flags})

    assert not said.isascii()
    assert text.startswith(said + rest["choices"][0]["message"]["content"])


async def test_two_requests_may_carry_one_id(worker: httpx.AsyncClient) -> None:
    """A retry beside its first try is answered as well."""
    send = [worker.post("/v1/chat/completions", json=HELLO, headers={"x-request-id": "same"}) for _ in range(3)]
    replies = await asyncio.gather(*send)

    assert {"chatcmpl-same"} == {reply.json()["id"] for reply in replies}
    assert 1 == len({reply.json()["choices"][0]["message"]["content"] for reply in replies})


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_frees_the_engine(slow_worker: httpx.AsyncClient, stream: bool) -> None:
    """Closing the connection aborts the request at once, streamed or not."""
    body = HELLO | {"stream": stream, "max_tokens": 1000, "ignore_eos": True}
    async with httpx.AsyncClient(base_url=slow_worker.base_url, timeout=60, verify=False) as leaver:
        if stream:
            async with leaver.stream("POST", "/v1/chat/completions", json=body) as reply:
                await anext(reply.aiter_bytes())
                assert 1 == await running(slow_worker)
        else:
            with pytest.raises(httpx.ReadTimeout):
                await leaver.post("/v1/chat/completions", json=body, timeout=httpx.Timeout(20, read=0.2))
    async with asyncio.timeout(60):
        while await running(slow_worker):
            await asyncio.sleep(0.002)
    log = (await slow_worker.get("/control/requests")).json()["requests"]

    assert ["aborted"] == [entry["state"] for entry in log]
    metrics = (await slow_worker.get("/metrics")).text
    assert 'vllm:num_requests_running{engine="0",model_name="tiny"} 0.0' in metrics
    assert 'vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.0' in metrics
    assert 'finished_reason="abort",model_name="tiny"} 1.0' in metrics


async def test_a_preempted_request_has_the_same_answer() -> None:
    """Six prompts of one request, whose answers do not fit in the cache together, get what each gets alone."""
    prompts = [f"Story {number}: {LONG[:400]}" for number in range(6)]
    body = {"max_tokens": 150, "ignore_eos": True}
    async with (
        serving(SimulatorOptions(port=0, speed=200, blocks=40)) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker,
    ):
        together = await answer(worker, "/v1/completions", {**body, "prompt": prompts})
        metrics = (await worker.get("/metrics")).text
        alone = [await answer(worker, "/v1/completions", {**body, "prompt": prompt}) for prompt in prompts]

    assert [one["choices"][0]["text"] for one in alone] == [choice["text"] for choice in together["choices"]]
    assert 'vllm:num_preemptions_total{engine="0",model_name="tiny"} 0.0' not in metrics


async def test_an_event_carries_as_many_tokens_as_the_interval() -> None:
    """The first token alone, then eight at a time, and at the end what is left; put together they say the same."""
    body = {**HELLO, **UNCUT, "max_tokens": 20, "stream": True}
    streams = []
    for interval in (1, 8):
        async with (
            serving(SimulatorOptions(port=0, speed=0, stream_interval=interval)) as url,
            httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker,
        ):
            streams.append(events((await worker.post("/v1/chat/completions", json=body)).text))
    single, eight = ([event["choices"][0] for event in stream if event["choices"]] for stream in streams)

    assert [1, 8, 8, 3] == [len(choice["token_ids"]) for choice in eight if choice.get("token_ids")]
    assert said(single) == said(eight)
    assert ["length"] == [choice["finish_reason"] for choice in eight if choice["finish_reason"]]


def said(choices: list[dict[str, Any]]) -> tuple[str, list[int]]:
    """Text and ids of a stream's choices, put together."""
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return text, [token for choice in choices for token in choice.get("token_ids") or []]
