import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving
from simulator.sglang import SglangMetrics
from tests.simulator.test_exposition import LOAD

HELLO: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}


@pytest.fixture
async def sglang() -> AsyncIterator[httpx.AsyncClient]:
    options = SimulatorOptions(port=0, speed=0, blocks=512, dialect="sglang", health_delay_s=0.05)
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        yield client


def test_names_and_values_are_those_of_sglang() -> None:
    """In tokens, where vLLM has shares and blocks."""
    names = SglangMetrics(model="tiny", cache_tokens=8192, page_size=16)
    seen = {sample.name: sample.value for family in names.families(LOAD) for sample in family.samples}

    assert {
        "sglang:num_running_reqs": 3,
        "sglang:num_queue_reqs": 2,
        "sglang:num_used_tokens": 2048,
        "sglang:max_total_num_tokens": 8192,
        "sglang:full_token_usage": 0.25,
        "sglang:cache_hit_rate": 0.48,
        "sglang:page_size": 16,
        "sglang:prompt_tokens_total": 90,
        "sglang:generation_tokens_total": 70,
        "sglang:cached_tokens_total": 48,
        "sglang:realtime_tokens_total": 70,
    } == seen


async def test_errors_are_flat(sglang: httpx.AsyncClient) -> None:
    chat = await sglang.post("/v1/chat/completions", json=HELLO | {"model": "other"})
    response = await sglang.post("/v1/responses", json={"model": "other", "input": "Hello"})

    assert (404, 404) == (chat.status_code, response.status_code)
    assert {"object", "message", "type", "param", "code"} == chat.json().keys()
    assert "The model `other` does not exist." == response.json()["error"]["message"]


@pytest.mark.e2e
async def test_health_takes_its_time(sglang: httpx.AsyncClient) -> None:
    """Ready answers at once."""
    began = time.monotonic()
    health = await sglang.get("/health")
    took_s = time.monotonic() - began
    ready = await sglang.get("/ready")

    assert (200, 200) == (health.status_code, ready.status_code)
    assert took_s >= 0.05


@pytest.mark.parametrize("mode", ["engine_dead", "shutting_down"])
async def test_a_worker_that_is_not_ready(sglang: httpx.AsyncClient, mode: str) -> None:
    """Both endpoints say so, also while it drains."""
    await sglang.post("/control/faults", json={"mode": mode})

    assert [503, 503] == [(await sglang.get(path)).status_code for path in ("/health", "/ready")]


async def test_loads_and_limits(sglang: httpx.AsyncClient) -> None:
    """What is in use and how much there is, in tokens; the server's info reports the page size."""
    await sglang.post("/v1/chat/completions", json=HELLO)
    (load,) = (await sglang.get("/v1/loads")).json()["loads"]
    info = (await sglang.get("/server_info")).json()

    assert (0, 0, 8192) == (load["num_running_reqs"], load["num_used_tokens"], load["max_total_num_tokens"])
    assert ("tiny", 16, None) == (info["served_model_name"], info["page_size"], info["kv_events"])
    assert "tiny" == (await sglang.get("/model_info")).json()["model_path"]
    assert "sglang" == (await sglang.get("/v1/models")).json()["data"][0]["owned_by"]


@pytest.mark.parametrize(
    ("events", "has_replay"), [(EventOptions(topic="t"), False), (EventOptions(replay_port=0), True)]
)
async def test_where_events_are_published(events: EventOptions, has_replay: bool) -> None:
    """Host, ports from which those of the ranks count, and what a router has to know of the blocks."""
    options = SimulatorOptions(port=0, dialect="sglang", block_size=8, kv_events=events)
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker:
        reported = (await worker.get("/server_info")).json()["kv_events"]

    ports = reported.pop("endpoint_port_base"), reported.pop("replay_endpoint_port_base", 0)
    assert (True, has_replay) == (ports[0] > 0, ports[1] > 0)
    assert {
        "publisher": "zmq",
        "endpoint_host": "127.0.0.1",
        "topic": events.topic,
        "block_size": 8,
        "dp_size": 1,
    } == reported


async def test_adapters_are_models_with_a_parent() -> None:
    """Beside the card of the model itself."""
    options = SimulatorOptions(port=0, dialect="sglang", lora_modules=("poet",))
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker:
        cards = (await worker.get("/v1/models")).json()["data"]

    assert [("tiny", None), ("poet", "tiny")] == [(card["id"], card["parent"]) for card in cards]


@pytest.mark.parametrize("path", ["/version", "/load", "/is_sleeping", "/v1/messages", "/v1/rerank"])
async def test_what_only_vllm_has(sglang: httpx.AsyncClient, path: str) -> None:
    """It is not found."""
    assert 404 == (await sglang.get(path)).status_code
