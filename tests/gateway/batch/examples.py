"""Files in a folder and in memory, for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.batch.files import FileRules, Files
from gateway.batch.sqlite_records import SqliteRecords
from gateway.storage.sqlite_file import MEMORY, SqliteFile
from tests.gateway.examples import Clock

TYPE = b"multipart/form-data; boundary=xyz"
NOW = 1_763_700_000.0


def some_rules(folder: Path, **changes: Any) -> FileRules:
    usual = {
        "folder": folder,
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
    yield Files(SqliteRecords(file, "file"), some_rules(folder, **changes), wall_clock=clock or Clock(NOW))
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


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
