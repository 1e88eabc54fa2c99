from collections.abc import AsyncIterator

import httpx
import pytest

from benchmarks.peers.naive_proxy import application
from benchmarks.stub_worker import EVENTS_PER_STREAM, serve, write_script


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    servers = [await serve(write_script(name)) for name in ("first", "second")]
    app = application([f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers])
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://proxy") as client,
    ):
        yield client
    for server in servers:
        server.close()


async def test_workers_take_turns(client: httpx.AsyncClient) -> None:
    answers = [await client.post("/v1/chat/completions", json={}) for _ in range(3)]

    assert ["first", "second", "first"] == [answer.json()["model"] for answer in answers]


async def test_a_stream_comes_through_whole(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/chat/completions", json={"stream": True})

    assert EVENTS_PER_STREAM == answer.text.count("data: {")
    assert answer.text.endswith("data: [DONE]\n\n")
    assert answer.headers["content-type"].startswith("text/event-stream")
