"""Requests of all kinds through Envoy to the worker that the picker chose."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.certificates import without_key_identifiers
from tests.picker.configuration import BodyMode, Tls, forwarding
from tests.picker.envoy import envoy
from tests.picker.rig import PATIENCE_S, Rig, requests_of, rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODES: tuple[BodyMode, ...] = ("FULL_DUPLEX_STREAMED", "BUFFERED")
TWO_MB = "begin " + "0123456789abcde " * 131_072 + "end"
LONG = {"max_model_len": 2_000_000, "blocks": 200_000}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MODES)
async def there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with rig(tmp_path_factory.mktemp("rig"), body_mode=request.param, options=LONG) as running:
        yield running


async def test_a_chat_reaches_one_worker(there: Rig) -> None:
    """With the body as the caller sent it."""
    response = await there.chat("which worker")

    assert (200, "tiny", "chat.completion") == (
        response.status_code,
        response.json()["model"],
        response.json()["object"],
    )
    assert 1 == len(await there.holders("which worker"))


async def test_a_repeated_prompt_goes_to_the_worker_that_has_it_cached(there: Rig) -> None:
    text = "a prompt of several blocks, which stay in the cache of its worker. " * 20
    for _ in range(5):
        assert 200 == (await there.chat(text)).status_code

    holders = await there.holders(text)
    assert 5 == len(holders)
    assert 1 == len(set(holders))


async def test_a_stream_ends_with_its_usage(there: Rig) -> None:
    response = await there.chat("a stream", stream=True, stream_options={"include_usage": True})
    events = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]

    assert "text/event-stream" == response.headers["content-type"].partition(";")[0]
    assert "[DONE]" == events[-1]
    assert 4 == json.loads(events[-2])["usage"]["completion_tokens"]


async def test_the_sdk_sees_no_difference(there: Rig) -> None:
    async with there.openai() as client:
        asked: Any = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
        whole = await client.chat.completions.create(**asked)
        stream = await client.chat.completions.create(**asked, stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]

    assert whole.choices[0].message.content == "".join(pieces)


async def test_completions_and_models_are_served_too(there: Rig) -> None:
    completion = await there.http.post("/v1/completions", json={"model": "tiny", "prompt": "hi", "max_tokens": 3})
    models = await there.http.get("/v1/models")

    assert (200, 3) == (completion.status_code, completion.json()["usage"]["completion_tokens"])
    assert "tiny" in {model["id"] for model in models.json()["data"]}


async def test_an_alias_is_replaced_by_the_name_that_the_worker_knows(there: Rig) -> None:
    response = await there.chat("asked by an alias", model="gpt-4o")
    (worker,) = await there.holders("asked by an alias")
    bodies = [base64.b64decode(each["body"]).decode() for each in await requests_of(worker)]

    assert (200, "gpt-4o") == (response.status_code, response.json()["model"])
    assert ["tiny"] == [json.loads(body)["model"] for body in bodies if "asked by an alias" in body]


async def test_a_body_of_2_mb_arrives_whole(there: Rig) -> None:
    """Far more than one message of ext_proc, than a window of HTTP/2, and than Envoy's buffers."""
    response = await there.chat(TWO_MB, max_tokens=1)

    assert 200 == response.status_code, response.text[:500]
    assert 1 == len(await there.holders(TWO_MB))


@pytest.mark.parametrize(
    ("body", "status"),
    [({"model": "tiny"}, 400), ({"model": "unknown", "messages": [{"role": "user", "content": "hi"}]}, 404)],
)
async def test_refusals_have_the_shape_of_openai(there: Rig, body: dict[str, object], status: int) -> None:
    response = await there.http.post("/v1/chat/completions", json=body)

    assert status == response.status_code, response.text
    assert {"message", "type", "param", "code"} <= response.json()["error"].keys()


@pytest.mark.parametrize("mode", MODES)
async def test_callers_may_use_tls_and_http_2(mode: BodyMode, tmp_path: Path) -> None:
    """HTTP/1.1 over TLS by a client; HTTP/2 over TLS by another Envoy, which the client uses. Both send long bodies."""
    files = without_key_identifiers(tmp_path)
    async with rig(tmp_path, 2, body_mode=mode, tls=Tls(files.server, files.key), options=LONG) as there:
        direct = await there.chat(TWO_MB, max_tokens=1)
        config = forwarding(there.url.removeprefix("https://"), to_http2=True, to_tls=True)
        async with AsyncExitStack() as exits:
            forwarder = await exits.enter_async_context(envoy(config))
            url = f"http://{forwarder.address}"
            client = await exits.enter_async_context(httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, verify=False))
            body = {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}
            over_2 = await client.post("/v1/chat/completions", json=body)
            long = {**body, "max_tokens": 1, "messages": [{"role": "user", "content": TWO_MB}]}
            long_over_2 = await client.post("/v1/chat/completions", json=long)
            holders = await there.holders(TWO_MB)
            streamed = await client.post("/v1/chat/completions", json={**body, "stream": True})
            requests = await forwarder.counter("cluster.target.upstream_cx_http2_total")

    assert [200] * 4 == [each.status_code for each in (direct, over_2, long_over_2, streamed)]
    assert 2 == len(holders)
    assert "data: [DONE]" == streamed.text.splitlines()[-2]
    assert 1 <= requests
