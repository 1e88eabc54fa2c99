from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from simulator.dynamo import DynamoMetrics
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.simulator.test_exposition import LOAD

HELLO: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}


@pytest.fixture
async def dynamo() -> AsyncIterator[httpx.AsyncClient]:
    options = SimulatorOptions(port=0, speed=0, blocks=512, dialect="dynamo")
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        yield client


def test_names_and_values_are_those_of_dynamo() -> None:
    names = DynamoMetrics(model="tiny", blocks=2048, block_size=16)
    seen = {sample.name: sample.value for family in names.families(LOAD) for sample in family.samples}

    assert {
        "dynamo_frontend_inflight_requests": 5,
        "dynamo_frontend_queued_requests": 2,
        "dynamo_frontend_model_total_kv_blocks": 2048,
        "dynamo_frontend_model_kv_cache_block_size": 16,
        "dynamo_frontend_output_tokens_total": 70,
    } == seen


async def test_errors_are_flat(dynamo: httpx.AsyncClient) -> None:
    """With the status in words for a type."""
    reply = await dynamo.post("/v1/chat/completions", json=HELLO | {"model": "other"})

    assert 404 == reply.status_code
    assert {"message": "The model `other` does not exist.", "type": "Not Found", "code": 404} == reply.json()


async def test_health_names_the_instances(dynamo: httpx.AsyncClient) -> None:
    """Their ids are integers that a float cannot hold."""
    (instance,) = (await dynamo.get("/health")).json()["instances"]

    assert 2**63 <= instance["instance_id"] < 2**64
    assert 200 == (await dynamo.get("/live")).status_code


async def test_a_model_by_its_name(dynamo: httpx.AsyncClient) -> None:
    """Its card, and whether it is ready."""
    card = (await dynamo.get("/v1/models/tiny")).json()

    assert ("tiny", "nvidia", 8192) == (card["id"], card["owned_by"], card["context_window"])
    assert [card] == (await dynamo.get("/v1/models")).json()["data"]
    assert (await dynamo.get("/v1/models/tiny/ready")).json()["ready"]
    assert 404 == (await dynamo.get("/v1/models/other")).status_code


async def test_a_dead_engine(dynamo: httpx.AsyncClient) -> None:
    """Neither the frontend nor the model is well, but the process lives."""
    await dynamo.post("/control/faults", json={"mode": "engine_dead"})
    paths = ("/health", "/v1/models/tiny/ready", "/live")

    assert [503, 503, 200] == [(await dynamo.get(path)).status_code for path in paths]


@pytest.mark.parametrize("path", ["/tokenize", "/version", "/ready", "/v1/messages", "/v1/responses/resp_1"])
async def test_what_dynamo_has_not(dynamo: httpx.AsyncClient, path: str) -> None:
    """It is not found."""
    assert 404 == (await dynamo.get(path)).status_code
