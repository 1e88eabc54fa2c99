"""`/v1/batches` for two teams, over stores in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from gateway.api.application import _answer_errors
from gateway.api.batches import batch_object, router
from gateway.batch.batch import BatchInfo, BatchUsage, ended, failed, new_batch
from gateway.batch.line_store import Progress
from gateway.batch.plan import LineFault
from tests.gateway.batch.examples import NOW
from tests.gateway.batch.test_batches import FIELDS, staged
from tests.gateway.tenancy_examples import SECRET, a_team, a_tenancy, at_work

RED_SECRET = "wg-red-0123456789"


@asynccontextmanager
async def serving(folder: Path, *, is_served: bool = True) -> AsyncIterator[httpx.AsyncClient]:
    """Asks with the key of the team blue, which has the file ``file-1``."""
    tenancy = a_tenancy(a_team(), {"name": "red", "keys": [{"id": "red-ci", "secret": RED_SECRET}]})
    api = FastAPI()
    api.include_router(router)
    _answer_errors(api, (router,))
    api.state.access = tenancy.access
    headers = {"authorization": f"Bearer {SECRET}"}
    async with (
        at_work(tenancy),
        staged(folder) as stage,
        httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://localhost", headers=headers) as client,
    ):
        api.state.batches = stage.batches if is_served else None
        yield client


async def created(client: httpx.AsyncClient) -> dict[str, Any]:
    made: dict[str, Any] = (await client.post("/v1/batches", json=FIELDS)).raise_for_status().json()
    return made


async def test_a_new_batch_is_in_openai_format(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        made = await created(client)
        found = (await client.get(f"/v1/batches/{made['id']}")).json()

    assert made == found
    expected = {
        "id": made["id"],
        "object": "batch",
        "endpoint": "/v1/embeddings",
        "input_file_id": "file-1",
        "completion_window": "24h",
        "status": "validating",
        "created_at": int(NOW),
        "expires_at": int(NOW) + 86_400,
        "request_counts": {"total": 0, "completed": 0, "failed": 0},
    }
    assert expected == {name: value for name, value in made.items() if value is not None}


async def test_batches_are_listed_in_pages(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        first, second = (await created(client))["id"], (await created(client))["id"]
        page = (await client.get("/v1/batches", params={"limit": "1"})).json()
        rest = (await client.get("/v1/batches", params={"after": second})).json()
        refused = await client.get("/v1/batches", params={"limit": "101"})

    assert ([second], True) == ([each["id"] for each in page["data"]], page["has_more"])
    assert ([first], False) == ([each["id"] for each in rest["data"]], rest["has_more"])
    assert (400, "limit") == (refused.status_code, refused.json()["error"]["param"])


async def test_a_batch_is_cancelled(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        made = await created(client)
        cancelled = (await client.post(f"/v1/batches/{made['id']}/cancel")).json()

    assert ("cancelling", int(NOW)) == (cancelled["status"], cancelled["cancelling_at"])


async def test_a_batch_of_another_team_is_unknown(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        path = f"/v1/batches/{(await created(client))['id']}"
        red = {"authorization": f"Bearer {RED_SECRET}"}
        answers = [await client.get(path, headers=red), await client.post(f"{path}/cancel", headers=red)]
        sent = await client.post("/v1/batches", json=FIELDS, headers=red)
        listed = await client.get("/v1/batches", headers=red)

    assert [(404, "batch_not_found")] * 2 == [(each.status_code, each.json()["error"]["code"]) for each in answers]
    assert (404, "file_not_found") == (sent.status_code, sent.json()["error"]["code"])
    assert [] == listed.json()["data"]


@pytest.mark.parametrize(
    ("body", "status"), [(b"{", 400), (b"[]", 400), (b"{}", 400), (b" " * 70_000, 413), (b'{"\xff": 1}', 400)]
)
async def test_a_malformed_body_is_refused(tmp_path: Path, body: bytes, status: int) -> None:
    async with serving(tmp_path) as client:
        assert status == (await client.post("/v1/batches", content=body)).status_code


async def test_a_key_is_required(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        assert 401 == (await client.get("/v1/batches", headers={"authorization": "Bearer x"})).status_code


async def test_without_a_folder_no_batches_are_served(tmp_path: Path) -> None:
    async with serving(tmp_path, is_served=False) as client:
        response = await client.get("/v1/batches")

    assert (404, "unknown_url") == (response.status_code, response.json()["error"]["code"])


def test_faults_and_usage_are_in_openai_format() -> None:
    info = BatchInfo("/v1/embeddings", "file-1", "ci", 1, 2)
    fault = LineFault("invalid_request", "x", "body.n", 3)
    refused = batch_object(new_batch("batch_1", "blue", failed(info, [fault], 4.0)), Progress(0, 0, 0))
    over = ended(info, Progress(1, 1, 0), BatchUsage(5, 4, 3, 2), output_file_id="file-2", error_file_id=None, now=5.0)

    data = [{"code": "invalid_request", "message": "x", "param": "body.n", "line": 3}]
    assert {"object": "list", "data": data} == refused["errors"]
    assert {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 8,
    } == batch_object(new_batch("batch_1", "blue", over), Progress(1, 1, 0))["usage"]
