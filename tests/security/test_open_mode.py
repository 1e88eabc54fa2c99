"""A gateway without keys, asked over real sockets by what is not a program on its machine."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest

from tests.e2e.stack import Stack, stack

CHAT = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]}
JSON = {"content-type": "application/json"}


@pytest.fixture
async def running() -> AsyncIterator[Stack]:
    async with stack(1) as running:
        yield running


async def ask(running: Stack, headers: Mapping[str, str]) -> httpx.Response:
    request = httpx.Request("POST", f"{running.url}/v1/chat/completions", content=json.dumps(CHAT), headers=headers)
    return await running.http.send(request)


def reported(response: httpx.Response) -> tuple[int, Any]:
    return response.status_code, response.json()["error"]["code"]


async def test_a_local_program_is_served(running: Stack) -> None:
    port = running.url.rpartition(":")[2]

    assert [200] * 3 == [
        (await ask(running, {**JSON, "host": f"{host}:{port}"})).status_code
        for host in ("localhost", "127.0.0.1", "[::1]")
    ]


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "gateway.lan:8080"},
        {"x-forwarded-for": "127.0.0.1"},
        {"x-real-ip": "10.0.0.1"},
        {"forwarded": "for=10.0.0.1"},
        {"via": "1.1 proxy"},
        {"x-forwarded-proto": "https"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_what_is_not_local_is_refused(running: Stack, headers: Mapping[str, str]) -> None:
    response = await ask(running, {**JSON, **headers})
    models = await running.http.get("/v1/models", headers=dict(headers))

    assert [(403, "open_mode")] * 2 == [reported(response), reported(models)]
    assert [] == await running.served(running.workers[0])


async def test_a_page_cannot_send_what_it_need_not_ask_for(running: Stack) -> None:
    """A cross-site POST without a content type is sent by browsers without a preflight."""
    assert (403, "open_mode") == reported(await ask(running, {}))
    assert 415 == (await ask(running, {"content-type": "text/plain"})).status_code


async def test_an_operator_may_open_it_to_a_network() -> None:
    """`server.open_mode: network`: by any name and through any proxy, but not for pages of other origins."""
    async with stack(1, server={"open_mode": "network"}) as running:
        proxied = {**JSON, "host": "gateway.lan", "x-forwarded-for": "10.0.0.1"}

        assert 200 == (await ask(running, proxied)).status_code
        assert (403, "open_mode") == reported(await ask(running, {**JSON, "origin": "https://evil.example"}))
