"""Settings go in, an ASGI application comes out."""

import asyncio
import gc
import io
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gateway.app.application import create_app
from gateway.app.asgi import Gateway
from gateway.protocol.worker_address import id_of_address
from gateway.settings import build
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.fakes.engine import Page, fake_engine
from tests.gateway.asgi import Caller, running
from tests.gateway.examples import CHAT


@pytest.fixture
def unreachable() -> Iterator[str]:
    """An address at which no one listens, and no one will."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def a_gateway(
    *workers: str, model: Mapping[str, Any] | None = None, sink: io.BytesIO | None = None, **groups: Any
) -> Gateway:
    """From settings as they stand in a file."""
    data = {"models": [{"name": "tiny", "workers": [{"url": url} for url in workers]} | dict(model or {})], **groups}
    return create_app(build(data, {}), log_sink=sink if sink is not None else io.BytesIO())


async def get(gateway: Gateway, path: str, *, method: str = "GET", headers: Any = None) -> Caller:
    caller = Caller(method=method, path=path, headers=headers)
    await caller.call(gateway)
    return caller


async def ask(gateway: Gateway, raw: bytes = CHAT, **how: Any) -> Caller:
    caller = Caller(raw, **how)
    await caller.call(gateway)
    return caller


# ---- routes


async def test_models_are_listed(unreachable: str) -> None:
    gateway = a_gateway(unreachable, model={"aliases": ["gpt-4o", "gpt-4*"]})
    listed = await get(gateway, "/v1/models")

    assert ["tiny", "gpt-4o"] == [model["id"] for model in listed.json["data"]]
    assert "gpt-4o" == (await get(gateway, "/v1/models/gpt-4o")).json["id"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v2/models", 404, "unknown_url"),
        ("POST", "/v1/responses/compact", 404, "unknown_url"),
        ("POST", "/v1/responses/input_tokens", 404, "unknown_url"),
        ("POST", "/", 405, "method_not_allowed"),
        ("POST", "/v1/images/generations", 404, "unknown_url"),
        ("GET", "/v1/models/huge", 404, "model_not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("POST", "/livez", 405, "method_not_allowed"),
    ],
)
async def test_every_error_has_openais_shape(unreachable: str, method: str, path: str, status: int, code: str) -> None:
    """Also those of the router; SDKs read message, type, param and code."""
    caller = await get(a_gateway(unreachable), path, method=method)
    error = caller.json["error"]

    assert (status, code, "invalid_request_error") == (caller.status, error["code"], error["type"])
    assert ["message", "type", "param", "code"] == list(error)
    assert b"application/json" == caller.headers[b"content-type"]
    assert (status == 405) == (b"allow" in caller.headers)


async def test_the_applications_errors_say_when_to_come_back(unreachable: str) -> None:
    """Here a worker is down that may keep the response; the start of the gateway has not asked it yet."""
    caller = await get(a_gateway(unreachable), "/v1/responses/resp_1")

    assert (503, b"2", "no_worker_available") == (
        caller.status,
        caller.headers[b"retry-after"],
        caller.json["error"]["code"],
    )


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/openai/chat/completions", "; did you mean /v1/chat/completions"),
        ("/v2/completions", "; did you mean /v1/completions"),
        ("/api/models", "; did you mean /v1/models"),
        ("/v1/responses/compact", ": use /v1/responses with the whole conversation or its last part"),
        ("/v1/images/generations", ""),
    ],
)
async def test_a_wrong_base_url_is_reported_the_right_path(unreachable: str, path: str, meant: str) -> None:
    """With something else in place of /v1 SDKs miss what is served here."""
    caller = await get(a_gateway(unreachable), path, method="POST")

    assert f"POST {path} is not served here{meant}" == caller.json["error"]["message"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/livez", b"GET, HEAD, OPTIONS"),
        ("/health", b"GET, HEAD, OPTIONS"),
        ("/metrics", b"GET, HEAD, OPTIONS"),
        ("/v1/models", b"GET, HEAD, OPTIONS"),
        ("/v1/responses/resp_1", b"DELETE, GET, HEAD, OPTIONS"),
        ("/v1/responses/resp_1/cancel", b"OPTIONS, POST"),
        ("/v1/chat/completions", b"POST, OPTIONS"),
        ("/chat/completions/", b"POST, OPTIONS"),
    ],
)
async def test_each_path_says_what_it_takes(unreachable: str, path: str, allowed: bytes) -> None:
    """OPTIONS is answered with it, and so is a method that is not taken; HEAD is where GET is."""
    gateway = a_gateway(unreachable)
    options = await get(gateway, path, method="OPTIONS")
    patch = await get(gateway, path, method="PATCH")

    assert (204, allowed, 405, allowed) == (
        options.status,
        options.headers[b"allow"],
        patch.status,
        patch.headers[b"allow"],
    )


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/health", "/ping", "/version", "/metrics", "/v1/models", "/"])
async def test_what_can_be_asked_for_can_be_asked_for_by_head(unreachable: str, path: str) -> None:
    """The status and the headers of GET."""
    gateway = a_gateway(unreachable)
    head, get_ = await get(gateway, path, method="HEAD"), await get(gateway, path)

    assert (head.status, head.headers[b"content-type"]) == (get_.status, get_.headers[b"content-type"])


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "//"])
async def test_the_base_url_says_what_to_call(unreachable: str, path: str) -> None:
    """Without a key, and without the name of anything that is served."""
    reported = await get(a_gateway(unreachable), path)

    assert (200, "/v1") == (reported.status, reported.json["base_url"])
    assert "POST /v1/chat/completions" in reported.json["endpoints"]
    assert "tiny" not in str(reported.json)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/livez"), ("GET", "/v1/models"), ("GET", "/nowhere"), ("DELETE", "/livez"), ("POST", "/v1/completions")],
)
async def test_every_response_has_a_request_id(unreachable: str, method: str, path: str) -> None:
    """The caller's if it sent a good one, else one made for it; once."""
    gateway = a_gateway(unreachable)
    given = await get(gateway, path, method=method, headers=[(b"x-request-id", b"r-9")])
    made = await get(gateway, path, method=method, headers=[(b"x-request-id", b"r 9")])

    assert [b"r-9"] == [value for name, value in given.header_list if name == b"x-request-id"]
    (request_id,) = [value for name, value in made.header_list if name == b"x-request-id"]
    assert 32 == len(request_id)
    assert int(request_id, 16)


async def test_probes_stand_alone_for_a_port_of_their_own(unreachable: str) -> None:
    """They tell what the application reports; nothing else of it is there."""
    gateway = a_gateway(unreachable)
    async with running(gateway):
        beside = [await get(gateway, path) for path in ("/livez", "/readyz")]
        alone = [
            Caller(method="GET", path=path) for path in ("/livez", "/readyz", "/metrics", "/v1/models", "/openapi.json")
        ]
        for caller in alone:
            await caller.call(gateway.probes)

    assert [caller.json for caller in beside] == [caller.json for caller in alone[:2]]
    assert [200, 503, 200, 404, 404] == [caller.status for caller in alone]
    assert "unknown_url" == alone[3].json["error"]["code"]


# ---- life


async def test_it_serves_without_workers(unreachable: str) -> None:
    """The start waits for no one: 503 with retry-after until somebody is there, and the reason at /readyz."""
    gateway = a_gateway(unreachable, retry={"wait_s": 0})
    async with running(gateway):
        ready, asked = await get(gateway, "/readyz"), await ask(gateway)

    assert (503, {"tiny": "none of 1 workers is up"}) == (ready.status, ready.json["models"])
    assert (503, b"2", "no_worker_available") == (
        asked.status,
        asked.headers[b"retry-after"],
        asked.json["error"]["code"],
    )


async def test_it_serves_by_a_worker_that_is_there() -> None:
    """Once started it has asked everybody how they are; the answer says who gave it."""
    async with serving(SimulatorOptions(port=0, speed=0)) as url:
        gateway = a_gateway(url, model={"aliases": ["gpt-4o"]})
        async with running(gateway):
            ready, asked = await get(gateway, "/readyz"), await ask(gateway, CHAT.replace(b"tiny", b"gpt-4o"))
            metrics = await get(gateway, "/metrics")

    assert (200, {"tiny": "ready"}) == (ready.status, ready.json["models"])
    assert (200, id_of_address(url).encode(), b"prefix_aware") == (
        asked.status,
        asked.headers[b"x-warmgate-worker"],
        asked.headers[b"x-warmgate-strategy"],
    )
    assert b'warmgate_requests_total{model="tiny",status="200"} 1.0\n' in metrics.body
    assert f'warmgate_worker_connections{{model="tiny",worker="{id_of_address(url)}"}} 1.0\n'.encode() in metrics.body
    assert b"_created" not in metrics.body


async def test_what_engines_tell_reaches_readiness_and_metrics() -> None:
    """One that sleeps is distinguished from one that is down; each is asked with its own key."""
    page = Page("""\
vllm:num_requests_waiting{engine="0"} 4
vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0
""")
    async with fake_engine({"/health": Page(), "/metrics": page}) as engine:
        worker = {"url": engine.url, "id": "a", "api_key": "of-the-worker"}
        gateway = a_gateway(model={"workers": [worker]})
        async with running(gateway):
            ready, metrics = await get(gateway, "/readyz"), await get(gateway, "/metrics")

    assert (503, {"tiny": "all of 1 workers are asleep"}) == (ready.status, ready.json["models"])
    for line in (
        'worker_up{model="tiny",worker="a"} 1.0',
        'worker_asleep{model="tiny",worker="a"} 1.0',
        'worker_engine_waiting{model="tiny",worker="a"} 4.0',
    ):
        assert f"warmgate_{line}\n".encode() in metrics.body
    assert all("\r\nauthorization: bearer of-the-worker\r\n" in head for head in engine.heads)


async def test_the_end_closes_everything() -> None:
    """No task stays, no connection, no line that was not written; a socket left open would be a warning, an error."""
    sink, before = io.BytesIO(), asyncio.all_tasks()
    async with serving(SimulatorOptions(port=0, speed=0)) as url:
        gateway = a_gateway(url, sink=sink)
        async with running(gateway):
            assert 200 == (await ask(gateway)).status
            open_ = (await get(gateway, "/metrics")).body
        closed = (await get(gateway, "/metrics")).body
    gc.collect()
    name = f'warmgate_worker_connections{{model="tiny",worker="{id_of_address(url)}"}}'.encode()

    assert name + b" 1.0" in open_
    assert name + b" 0.0" in closed
    assert before == asyncio.all_tasks()
    assert [200] == [json.loads(line)["status"] for line in sink.getvalue().splitlines()]


async def test_it_can_be_made_outside_a_loop_and_twice(unreachable: str) -> None:
    """Nothing is opened before the lifespan begins, and two in one process share nothing."""
    first, second = await asyncio.to_thread(a_gateway, unreachable), a_gateway(unreachable)
    await ask(first, b"{")
    counted = b'warmgate_requests_total{model="unknown",status="400"}'

    assert counted in (await get(first, "/metrics")).body
    assert counted not in (await get(second, "/metrics")).body


# ---- settings


async def test_settings_reach_whom_they_concern(unreachable: str) -> None:
    """The largest body, the name of the strategy, and silence where no lines are wanted."""
    sink = io.BytesIO()
    gateway = a_gateway(unreachable, sink=sink, server={"max_body_bytes": 10}, logging={"requests": False})
    async with running(gateway):
        caller = await ask(gateway)

    assert (413, b"") == (caller.status, sink.getvalue())


async def test_a_workers_id_and_the_strategy_are_shown() -> None:
    """The id that was given, not the address."""
    async with serving(SimulatorOptions(port=0, speed=0, model="org/tiny")) as url:
        gateway = a_gateway(
            model={
                "workers": [{"url": url, "id": "gpu-7"}],
                "strategy": "least_loaded",
                "upstream_model": "org/tiny",
            }
        )
        async with running(gateway):
            caller = await ask(gateway)

    assert (200, b"gpu-7", b"least_loaded") == (
        caller.status,
        caller.headers[b"x-warmgate-worker"],
        caller.headers[b"x-warmgate-strategy"],
    )


async def test_with_bedrock_a_model_is_ready_without_workers(unreachable: str) -> None:
    """Somebody could answer."""
    gateway = a_gateway(unreachable, model={"bedrock": {"model_id": "anthropic.claude", "region": "us-east-1"}})

    assert {"tiny": "ready"} == (await get(gateway, "/readyz")).json["models"]
