import asyncio
import json
from typing import Any

import httpx
import pytest

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.parametrize(("query", "state"), [("", "weights_offloaded"), ("?level=2", "discard_all")])
async def test_asleep_and_awake(worker: httpx.AsyncClient, query: str, state: str) -> None:
    """Both endpoints and the metric agree."""
    await worker.post(f"/sleep{query}")
    asleep = (await worker.get("/is_sleeping")).json()
    metrics = (await worker.get("/metrics")).text
    await worker.post("/wake_up")

    assert {"is_sleeping": True} == asleep
    assert f'vllm:engine_sleep_state{{engine="0",model_name="tiny",sleep_state="{state}"}} 1.0' in metrics
    assert {"is_sleeping": False} == (await worker.get("/is_sleeping")).json()
    assert 200 == (await worker.post(CHAT, json=HELLO)).status_code


async def test_a_level_that_is_not_one(worker: httpx.AsyncClient) -> None:
    """It is refused, and the engine stays awake."""
    assert 400 == (await worker.post("/sleep?level=3")).status_code
    assert {"is_sleeping": False} == (await worker.get("/is_sleeping")).json()


async def test_who_sleeps_answers_nothing(worker: httpx.AsyncClient) -> None:
    """A whole answer is a 503, a stream is a 200 with the error as its first event; health is fine."""
    await worker.post("/sleep")
    whole = await worker.post(CHAT, json=HELLO)
    stream = await worker.post(CHAT, json=HELLO | {"stream": True})
    embeddings = await worker.post("/v1/embeddings", json={"input": "Hello"})
    error, done, rest = stream.text.split("\n\n")

    assert (503, "ServiceUnavailableError") == (whole.status_code, whole.json()["error"]["type"])
    assert (200, "data: [DONE]", "") == (stream.status_code, done, rest)
    assert whole.json() == json.loads(error.removeprefix("data: "))
    assert 503 == embeddings.status_code
    assert 200 == (await worker.get("/health")).status_code


async def test_sleep_empties_the_cache(worker: httpx.AsyncClient) -> None:
    """A prompt that was warm is cold."""
    body = {"prompt": "x" * 400, "max_tokens": 1}
    await worker.post("/v1/completions", json=body)
    await worker.post("/sleep")
    await worker.post("/wake_up")
    again = (await worker.post("/v1/completions", json=body)).json()

    assert 0 == again["usage"]["prompt_tokens_details"]["cached_tokens"]


async def test_sleep_ends_what_runs(slow_worker: httpx.AsyncClient) -> None:
    """With finish_reason abort: a stream after what it has, a whole answer with the text so far."""
    body = HELLO | {"ignore_eos": True, "max_tokens": 500}
    async with asyncio.TaskGroup() as group:
        whole = group.create_task(slow_worker.post(CHAT, json=body))
        async with slow_worker.stream("POST", CHAT, json=body | {"stream": True}) as reply:
            lines = reply.aiter_lines()
            first = await anext(lines)
            await slow_worker.post("/sleep")
            rest = [line async for line in lines if line]
    answer = (await whole).json()

    assert '"role":"assistant"' in first
    assert "data: [DONE]" == rest[-1]
    assert "abort" == json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"]
    assert "abort" == answer["choices"][0]["finish_reason"]
    assert answer["usage"]["completion_tokens"] < 5
