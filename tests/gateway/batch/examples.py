"""Files in a folder and in memory, for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.batch.contents import Contents
from gateway.batch.files import FileRules, Files
from gateway.batch.folder import Folder
from gateway.batch.sqlite_records import SqliteRecords
from gateway.storage.sqlite_file import MEMORY, SqliteFile
from tests.gateway.examples import Clock

TYPE = b"multipart/form-data; boundary=xyz"
NOW = 1_763_700_000.0


def some_rules(**changes: Any) -> FileRules:
    usual = {
        "max_file_bytes": 1000,
        "max_lines": 10,
        "max_team_bytes": 2000,
        "max_team_files": 5,
        "keep_s": 7200.0,
    }
    return FileRules(**{**usual, **changes})


@asynccontextmanager
async def some_files(folder: Path, clock: Clock | None = None, **changes: Any) -> AsyncIterator[Files]:
    file = SqliteFile(MEMORY)
    rules = some_rules(**changes)
    yield Files(SqliteRecords(file, "file"), Folder(folder), rules, wall_clock=clock or Clock(NOW))
    await file.aclose()


def a_form(content: bytes, filename: str = "a.jsonl", **fields: str) -> bytes:
    """The body of a form with a file and *fields*, of which ``purpose`` is one; underscores stand for brackets."""
    parts = [
        f'--xyz\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in {"purpose": "batch", **fields}.items()
    ]
    head = f'--xyz\r\ncontent-disposition: form-data; name="file"; filename="{filename}"\r\n\r\n'
    return "".join(parts).encode() + head.encode() + content + b"\r\n--xyz--\r\n"


async def in_pieces(body: bytes, step: int = 50) -> AsyncIterator[bytes]:
    for at in range(0, len(body), step):
        yield body[at : at + step]


async def content_of(files: Files, team: str, file_id: str) -> bytes:
    """The content of a file of *team*."""
    file = await files.find(team, file_id)
    return b"".join([data async for data in await files.content(file, 0, file.info.bytes)])


async def read_all(contents: Contents, name: str) -> bytes:
    """A content that is at most 1 MB long."""
    return await contents.read(name, 0, 1_000_000)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
