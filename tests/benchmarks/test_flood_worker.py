import asyncio
from urllib.parse import urlsplit

import httpx

from benchmarks.flood_worker import Flood
from benchmarks.stub_worker import write_script
from tests.benchmarks.listening import listening

PATH = "/v1/chat/completions"
STREAM = b'POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 15\r\n\r\n{"stream":true}'


async def reported(client: httpx.AsyncClient) -> list[int]:
    sent: list[int] = (await client.get("/sent")).json()
    return sent


async def test_a_stream_has_about_the_size_asked_for() -> None:
    """Whole events, ``[DONE]`` behind the last, and usage where it is asked for."""
    flood = Flood(write_script("tiny"), stream_bytes=1_000_000)
    async with listening(flood.serve) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        plain = (await client.post(PATH, json={"stream": True})).text
        counted = (await client.post(PATH, json={"stream": True, "stream_options": {"include_usage": True}})).text

    assert flood.events == plain.count('data: {"id"') == counted.count('data: {"id"') - 1
    assert 900_000 < len(plain) < 1_000_000
    assert plain.endswith("data: [DONE]\n\n")
    assert (False, True) == ('"usage":{' in plain, '"usage":{' in counted)


async def test_what_is_no_stream_is_answered_as_the_stub_worker_does() -> None:
    """Health, models and plain completions, on one connection."""
    async with (
        listening(Flood(write_script("tiny"), stream_bytes=1).serve) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        health, models = await client.get("/health"), await client.get("/v1/models")
        completion = await client.post(PATH, json={"model": "tiny"})

    assert (200, "tiny") == (health.status_code, models.json()["data"][0]["id"])
    assert "chat.completion" == completion.json()["object"]


async def test_a_reader_that_stops_holds_the_worker_back() -> None:
    """What was sent stays what it was, and is less than the stream."""
    size = 2**26
    flood = Flood(write_script("tiny"), stream_bytes=size)
    async with listening(flood.serve) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        address = urlsplit(url)
        # The reader's limit makes it stop at 2 KiB.
        reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1_024)
        writer.write(STREAM)
        await reader.read(1)
        before, now = [-1], await reported(client)
        while now != before:
            await asyncio.sleep(0.2)
            before, now = now, await reported(client)
        writer.transport.abort()

    assert 0 < now[0] < size
