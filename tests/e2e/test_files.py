"""Files over real sockets, with the client of OpenAI as it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from openai import APIStatusError, AsyncOpenAI, NotFoundError

from tests.e2e.stack import HELD_KEY, Stack, stack


@asynccontextmanager
async def serving(folder: Path, **limits: int) -> AsyncIterator[Stack]:
    async with stack(
        1,
        teams=[{"name": "blue", "keys": [{"id": "ci", "secret": HELD_KEY}]}],
        store={"url": f"sqlite:///{folder / 'db'}"},
        files={"folder": str(folder / "files"), **limits},
    ) as running:
        yield running


async def test_the_client_of_openai_keeps_files_here(tmp_path: Path) -> None:
    """Upload, list, download and deletion, and the expiry that the caller chooses."""
    content = b'{"custom_id": "1"}\n' * 20_000
    async with serving(tmp_path) as running:
        files = running.openai.files
        expiry = {"anchor": "created_at", "seconds": 3600}
        made = await files.create(file=("lines.jsonl", content), purpose="batch", expires_after=expiry)  # type: ignore[arg-type]
        other = await files.create(file=("other.jsonl", b"{}"), purpose="batch")
        listed = [file.id async for file in await files.list(limit=1)]
        found = await files.retrieve(made.id)
        read = (await files.content(made.id)).content
        deleted = await files.delete(made.id)
        with pytest.raises(NotFoundError):
            await files.retrieve(made.id)

    assert (len(content), "lines.jsonl", "batch", "processed") == (made.bytes, made.filename, made.purpose, made.status)
    assert made.expires_at == made.created_at + 3600
    assert [other.id, made.id] == listed
    assert made == found
    assert content == read
    assert deleted.deleted
    assert [other.id] == [path.name for path in (tmp_path / "files").iterdir()]


async def test_files_outlast_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        made = await running.openai.files.create(file=("a.jsonl", b"{}\n"), purpose="batch")
    async with serving(tmp_path) as running:
        content = await running.openai.files.content(made.id)

    assert b"{}\n" == content.content


async def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    """While it arrives, so the rest of it is not read."""
    async with serving(tmp_path, max_file_bytes=100_000) as running:
        with pytest.raises(APIStatusError) as refusal:
            await running.openai.files.create(file=("a.jsonl", b"x" * 100_001), purpose="batch")

    assert (413, "file") == (refusal.value.status_code, refusal.value.param)


async def test_a_base_url_without_v1_reaches_files(tmp_path: Path) -> None:
    async with serving(tmp_path) as running, AsyncOpenAI(base_url=running.url, api_key=HELD_KEY) as client:
        made = await client.files.create(file=("a.jsonl", b"{}"), purpose="batch")

        assert made == await client.files.retrieve(made.id)
        assert [made] == (await client.files.list()).data
