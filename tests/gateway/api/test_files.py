"""`/v1/files` for two teams, over files in a folder."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from gateway.api.application import _answer_errors
from gateway.api.files import router
from tests.gateway.batch.examples import NOW, names_in, some_files
from tests.gateway.tenancy_examples import SECRET, a_team, a_tenancy, at_work

RED_SECRET = "wg-red-0123456789"


@asynccontextmanager
async def serving(folder: Path | None) -> AsyncIterator[httpx.AsyncClient]:
    """Asks with the key of the team blue. Without *folder*, no files are served."""
    red = {"name": "red", "keys": [{"id": "red-ci", "secret": RED_SECRET}]}
    tenancy = a_tenancy(a_team(), red)
    api = FastAPI()
    api.include_router(router)
    _answer_errors(api, (router,))
    api.state.access = tenancy.access
    headers = {"authorization": f"Bearer {SECRET}"}
    transport = httpx.ASGITransport(api)
    async with (
        at_work(tenancy),
        some_files(folder or Path("nowhere")) as files,
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client,
    ):
        api.state.files = None if folder is None else files
        yield client


async def uploaded(client: httpx.AsyncClient, content: bytes = b"{}\n", **more: Any) -> dict[str, Any]:
    form = {"files": {"file": ("a.jsonl", content)}, "data": {"purpose": "batch"}, **more}
    response = await client.post("/v1/files", **form)
    assert response.status_code == 200, response.text
    made: dict[str, Any] = response.json()
    return made


async def test_an_uploaded_file_is_in_openai_format(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        made = await uploaded(client)
        found = (await client.get(f"/v1/files/{made['id']}")).json()

    assert made == found
    assert {
        "id": made["id"],
        "object": "file",
        "bytes": 3,
        "created_at": int(NOW),
        "expires_at": int(NOW) + 7200,
        "filename": "a.jsonl",
        "purpose": "batch",
        "status": "processed",
        "status_details": None,
    } == made


async def test_the_content_is_what_was_uploaded(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        made = await uploaded(client, b'{"a": 1}\n')
        response = await client.get(f"/v1/files/{made['id']}/content")

    assert b'{"a": 1}\n' == response.content
    assert "application/octet-stream" == response.headers["content-type"]


@pytest.mark.parametrize(
    ("wanted", "status", "content", "place"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=0-9", 200, b"0123456789", None),
        ("bytes=5-2", 200, b"0123456789", None),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=-0", 416, b"", "bytes */10"),
    ],
)
async def test_a_range_of_the_content_can_be_downloaded(
    tmp_path: Path, wanted: str, status: int, content: bytes, place: str | None
) -> None:
    """Other ranges than a single one are ignored, as RFC 9110 allows."""
    async with serving(tmp_path) as client:
        path = f"/v1/files/{(await uploaded(client, b'0123456789'))['id']}/content"
        response = await client.get(path, headers={"range": wanted})

    assert (status, content, place) == (
        response.status_code,
        response.content,
        response.headers.get("content-range"),
    )
    assert str(len(content)) == response.headers["content-length"]


async def test_a_range_of_another_content_is_ignored(tmp_path: Path) -> None:
    """A download is continued only if it is of the same file."""
    async with serving(tmp_path) as client:
        path = f"/v1/files/{(await uploaded(client, b'0123456789'))['id']}/content"
        tag = (await client.get(path)).headers["etag"]
        same = await client.get(path, headers={"range": "bytes=8-", "if-range": tag})
        other = await client.get(path, headers={"range": "bytes=8-", "if-range": '"other"'})

    assert (b"89", b"0123456789") == (same.content, other.content)


async def test_a_content_that_cannot_be_read_is_an_error_before_the_first_byte(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        file_id = (await uploaded(client))["id"]
        (tmp_path / file_id).unlink()
        response = await client.get(f"/v1/files/{file_id}/content")

    assert (503, "files_unavailable") == (response.status_code, response.json()["error"]["code"])
    assert "5" == response.headers["retry-after"]


async def test_files_are_listed_in_pages(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        first, second = (await uploaded(client))["id"], (await uploaded(client))["id"]
        page = (await client.get("/v1/files", params={"limit": "1", "purpose": "batch"})).json()
        rest = (await client.get("/v1/files", params={"after": second, "order": "desc"})).json()

    assert (second, second, True) == (page["first_id"], page["last_id"], page["has_more"])
    assert [first] == [file["id"] for file in rest["data"]]


@pytest.mark.parametrize("name", ["limit", "order", "purpose", "after"])
async def test_an_invalid_query_parameter_is_named(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as client:
        response = await client.get("/v1/files", params={name: "x"})

    assert (400, name) == (response.status_code, response.json()["error"]["param"])


async def test_a_deleted_file_is_gone(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        path = f"/v1/files/{(await uploaded(client))['id']}"
        deleted = (await client.delete(path)).json()
        after = [(await client.get(path)).status_code, (await client.get(f"{path}/content")).status_code]

    assert {"id": path.removeprefix("/v1/files/"), "object": "file", "deleted": True} == deleted
    assert [404, 404] == after
    assert [] == names_in(tmp_path)


async def test_a_file_of_another_team_is_unknown(tmp_path: Path) -> None:
    """With the same answer as a file that does not exist."""
    async with serving(tmp_path) as client:
        path = f"/v1/files/{(await uploaded(client))['id']}"
        red = {"authorization": f"Bearer {RED_SECRET}"}
        answers = [
            await client.get(path, headers=red),
            await client.get(f"{path}/content", headers=red),
            await client.delete(path, headers=red),
        ]
        listed = await client.get("/v1/files", headers=red)

    assert [404] * 3 == [answer.status_code for answer in answers]
    assert {"file_not_found"} == {answer.json()["error"]["code"] for answer in answers}
    assert [] == listed.json()["data"]
    assert 1 == len(names_in(tmp_path))


async def test_a_key_is_required(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        unknown = {"authorization": "Bearer wg-unknown"}
        listed = await client.get("/v1/files", headers=unknown)
        sent = await client.post("/v1/files", headers=unknown, files={"file": b"x"})

    assert [401, 401] == [listed.status_code, sent.status_code]
    assert [] == names_in(tmp_path)


async def test_only_forms_are_uploads(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        response = await client.post("/v1/files", json={"file": "x"})

    assert 400 == response.status_code


async def test_without_a_folder_no_files_are_served() -> None:
    async with serving(None) as client:
        response = await client.get("/v1/files")

    assert (404, "unknown_url") == (response.status_code, response.json()["error"]["code"])
    assert "neither files.folder nor files.s3 is set" in response.json()["error"]["message"]
