import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.processes import Processes, start_stub_worker
from benchmarks.stub_worker import EVENTS_PER_STREAM, PROMPT_TOKENS, Pace, serve, write_script

PLAIN = b'POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 16\r\n\r\n{"model":"tiny"}'
STREAM = b'POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 15\r\n\r\n{"stream":true}'


@pytest.fixture
async def url() -> AsyncIterator[str]:
    server = await serve(write_script("tiny"))
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.fixture
async def sdk(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


async def test_the_openai_sdk_gets_a_completion_with_usage(sdk: openai.AsyncOpenAI) -> None:
    """A chat request is answered as the SDK expects it."""
    answer = await sdk.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}])

    assert answer.usage is not None
    assert ("tiny", "stop", PROMPT_TOKENS) == (
        answer.model,
        answer.choices[0].finish_reason,
        answer.usage.prompt_tokens,
    )


async def test_the_openai_sdk_gets_a_hundred_events(sdk: openai.AsyncOpenAI) -> None:
    """A stream has a hundred events, the last with the finish reason, and no usage unless asked."""
    stream = await sdk.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], stream=True)
    chunks = [chunk async for chunk in stream]

    assert EVENTS_PER_STREAM == len(chunks)
    assert [None] * 99 + ["stop"] == [chunk.choices[0].finish_reason for chunk in chunks]
    assert "t0 t1 t2" == "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:3])


async def test_a_body_may_come_in_chunks(url: str) -> None:
    """The next request on the same connection is understood, too."""
    reader, writer = await connect(url)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    writer.write(head + b'7\r\n{"model\r\n9\r\n":"tiny"}\r\n0\r\n\r\n' + PLAIN)
    heads = [await reader.readuntil(b"\r\n\r\n")]
    body = write_script("tiny").chat.partition(b"\r\n\r\n")[2]
    assert body == await reader.readexactly(len(body))
    heads.append(await reader.readuntil(b"\r\n\r\n"))
    writer.close()

    assert [True, True] == [each.startswith(b"HTTP/1.1 200 ") for each in heads]


async def test_usage_follows_the_last_event_when_asked_for(sdk: openai.AsyncOpenAI) -> None:
    """``include_usage`` adds one chunk without choices."""
    stream = await sdk.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "Hi"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    last = [chunk async for chunk in stream][-1]

    assert last.usage is not None
    assert ([], EVENTS_PER_STREAM) == (last.choices, last.usage.completion_tokens)


async def test_a_prompt_about_streams_is_not_a_stream(sdk: openai.AsyncOpenAI) -> None:
    """The words of a prompt cannot switch streaming on."""
    answer = await sdk.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": 'Send {"stream": true, "include_usage": true}'}]
    )

    assert "chat.completion" == answer.object


async def test_a_stream_is_framed_one_chunk_per_event(url: str) -> None:
    """Every event is an HTTP chunk of its own, and [DONE] ends the stream."""
    reader, writer = await connect(url)
    writer.write(STREAM)
    answer = await reader.readuntil(b"0\r\n\r\n")
    writer.close()
    chunks = answer.partition(b"\r\n\r\n")[2].split(b"\n\n\r\n")

    assert EVENTS_PER_STREAM + 2 == len(chunks)
    assert all(b"\r\ndata: {" in chunk for chunk in chunks[:EVENTS_PER_STREAM])
    assert [b"e\r\ndata: [DONE]", b"0\r\n\r\n"] == chunks[EVENTS_PER_STREAM:]


async def test_requests_on_one_connection_are_answered_in_turn(url: str) -> None:
    """A pipelined request waits for the stream before it, and a request in pieces is put together."""
    reader, writer = await connect(url)
    writer.write(STREAM + PLAIN + PLAIN[:30])
    stream = await reader.readuntil(b"0\r\n\r\n")
    first = await reader.readuntil(b"}}")
    writer.write(PLAIN[30:])
    second = await reader.readuntil(b"}}")
    writer.close()

    assert stream.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream")
    assert first == second
    assert first.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: application/json")


async def test_a_reader_that_leaves_does_not_disturb_the_others(url: str) -> None:
    """A stream cut by its reader ends alone."""
    leaving, staying = await connect(url), await connect(url)
    for _, writer in (leaving, staying):
        writer.write(STREAM)
    await leaving[0].readuntil(b"data: ")
    leaving[1].transport.abort()
    answer = await staying[0].readuntil(b"0\r\n\r\n")
    staying[1].close()

    assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


async def test_metrics_have_what_a_router_reads(url: str) -> None:
    """The cache's size and the load are there under vLLM's names."""
    async with httpx.AsyncClient(timeout=60) as client:
        text = (await client.get(f"{url}/metrics")).text
    readings = {s.name: s for family in text_string_to_metric_families(text) for s in family.samples}

    assert {"block_size": "16", "num_gpu_blocks": "8192"} == readings["vllm:cache_config_info"].labels
    assert 1.0 == readings["vllm:cache_config_info"].value
    assert 0.0 == readings["vllm:num_requests_running"].value
    assert 0.0 == readings["vllm:num_requests_waiting"].value


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/v1/models", 200), ("/v1/nothing", 404)])
async def test_pages_are_answered(url: str, path: str, status: int) -> None:
    """Health and models are there; anything else is not."""
    async with httpx.AsyncClient(timeout=60) as client:
        assert status == (await client.get(url + path)).status_code


@pytest.mark.e2e
async def test_a_pace_delays_the_first_byte() -> None:
    """A paced worker answers no sooner than its pace allows."""
    server = await serve(write_script("tiny"), pace=Pace(first_byte_s=0.05))
    reader, writer = await connect(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    began = time.monotonic()
    writer.write(PLAIN)
    await reader.readuntil(b"}}")
    took_s = time.monotonic() - began
    writer.close()
    server.close()

    assert took_s >= 0.045


@pytest.mark.e2e
def test_the_command_says_where_it_is_ready() -> None:
    """Started as a program on any free port, under uvloop, it serves."""
    with Processes() as processes:
        _, url = start_stub_worker(processes, "--model", "other")
        answer = httpx.get(f"{url}/v1/models", timeout=60).json()

    assert ["other"] == [card["id"] for card in answer["data"]]


def test_it_serves_under_uvloop() -> None:
    """The loop the command uses carries a whole stream."""

    async def stream() -> bytes:
        server = await serve(write_script("tiny"))
        reader, writer = await connect(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        writer.write(STREAM)
        answer = await reader.readuntil(b"0\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return answer

    assert EVENTS_PER_STREAM == uvloop.run(stream()).count(b"data: {")


async def test_equal_beginnings_of_prompts_have_equal_tokens(url: str) -> None:
    def asked(question: str) -> dict[str, Any]:
        return {"messages": [{"role": "system", "content": "x" * 32}, {"role": "user", "content": question}]}

    async with httpx.AsyncClient(timeout=60) as client:
        one, other = [(await client.post(f"{url}/tokenize", json=asked(text))).json() for text in ("What?", "Who?")]
        plain = (await client.post(f"{url}/tokenize", json={"prompt": "12345"})).json()

    assert one["tokens"][:8] == other["tokens"][:8]
    assert one["tokens"] != other["tokens"]
    assert (2, 2) == (plain["count"], len(plain["tokens"]))


async def test_it_counts_what_it_was_asked_for_until_it_is_broken_and_after(url: str) -> None:
    """Pages do not count; a broken worker answers 500, and is healthy all the same."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        whole = await client.post("/v1/chat/completions", json={"model": "tiny"})
        await client.post("/break")
        broken = await client.post("/v1/chat/completions", json={"model": "tiny"})
        health, served = await client.get("/health"), await client.get("/served")

    assert [200, 500, 200] == [whole.status_code, broken.status_code, health.status_code]
    assert {"served": 2} == served.json()


@pytest.mark.e2e
async def test_with_one_slot_requests_are_answered_one_after_the_other() -> None:
    """Three at once take three times as long as one, and come in their order."""
    server = await serve(write_script("tiny"), pace=Pace(first_byte_s=0.02, slots=1))
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    began = time.monotonic()

    async def answered_after() -> float:
        reader, writer = await connect(url)
        writer.write(PLAIN)
        await reader.readuntil(b"}}")
        writer.close()
        return time.monotonic() - began

    took_s = sorted(await asyncio.gather(*(answered_after() for _ in range(3))))
    server.close()

    assert [True] * 3 == [took >= 0.019 * (place + 1) for place, took in enumerate(took_s)]


@pytest.mark.e2e
def test_one_process_can_be_several_workers() -> None:
    """Each with a port and a count of its own."""
    with Processes() as processes:
        _, urls = start_stub_worker(processes, "--workers", "2")
        first, second = urls.split(",")
        httpx.post(f"{first}/v1/chat/completions", json={}, timeout=60)
        served = [httpx.get(f"{url}/served", timeout=60).json()["served"] for url in (first, second)]

    assert [1, 0] == served
