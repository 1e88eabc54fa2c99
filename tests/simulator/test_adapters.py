"""Adapters that are loaded and unloaded while a simulated worker runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from simulator.adapters import Adapters
from simulator.errors import ApiError
from simulator.options import SimulatorOptions
from simulator.server import serving


@asynccontextmanager
async def worker(**options: Any) -> AsyncIterator[httpx.AsyncClient]:
    reported = SimulatorOptions(**{"port": 0, "speed": 0, "lora_load_ms": 0, **options})
    async with serving(reported) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        yield client


async def listed(client: httpx.AsyncClient) -> list[str]:
    return [card["id"] for card in (await client.get("/v1/models")).json()["data"] if card["parent"] == "tiny"]


async def asked(client: httpx.AsyncClient, model: str) -> int:
    body = {"model": model, "max_tokens": 2, "messages": [{"role": "user", "content": "hello"}]}
    return (await client.post("/v1/chat/completions", json=body)).status_code


def test_adapters_are_names_of_their_own() -> None:
    adapters = Adapters(["a", "b"], model="tiny")
    adapters.add("c")
    adapters.remove("a")

    assert (["b", "c"], 2, "b", ["c"]) == (list(adapters), len(adapters), adapters[0], adapters[1:])
    for name, status in (("b", 400), ("tiny", 400)):
        with pytest.raises(ApiError) as refused:
            adapters.add(name)
        assert status == refused.value.status
    with pytest.raises(ApiError) as gone:
        adapters.remove("a")
    assert 404 == gone.value.status


@pytest.mark.parametrize(("dialect", "prefix"), [("vllm", "/v1"), ("sglang", "")])
async def test_a_loaded_adapter_is_served_until_it_is_unloaded(dialect: str, prefix: str) -> None:
    async with worker(dialect=dialect, health_delay_s=0.0) as client:
        before = await asked(client, "poet")
        load = await client.post(f"{prefix}/load_lora_adapter", json={"lora_name": "poet", "lora_path": "/poet"})
        served, names = await asked(client, "poet"), await listed(client)
        unload = await client.post(f"{prefix}/unload_lora_adapter", json={"lora_name": "poet"})

        assert (404, 200, 200, ["poet"], 200) == (before, load.status_code, served, names, unload.status_code)
        assert (404, []) == (await asked(client, "poet"), await listed(client))


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"lora_name": "poet", "lora_path": "/poet"}, 400),
        ({"lora_name": "tiny", "lora_path": "/tiny"}, 400),
        ({"lora_name": "new", "lora_path": "/nowhere/missing"}, 404),
        ({"lora_name": "new"}, 400),
    ],
)
async def test_what_cannot_be_loaded(body: dict[str, str], status: int) -> None:
    """One that is there, one that is called as the model, one that is nowhere."""
    async with worker(lora_modules=("poet",)) as client:
        response = await client.post("/v1/load_lora_adapter", json=body)

        assert status == response.status_code
        assert ["poet"] == await listed(client)


async def test_adapters_cannot_be_loaded_unless_that_is_allowed() -> None:
    async with worker(lora_load_ms=None) as client:
        response = await client.post("/v1/load_lora_adapter", json={"lora_name": "a", "lora_path": "/a"})

        assert 404 == response.status_code
