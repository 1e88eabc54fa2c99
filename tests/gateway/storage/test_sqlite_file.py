"""One SQLite file, one thread."""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.errors import StoreAway
from gateway.storage.sqlite_file import MEMORY, SqliteFile


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[SqliteFile]:
    file = SqliteFile(tmp_path / "db")
    await file.run(create)
    yield file
    await file.aclose()


def create(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")


def put(number: int, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO numbers VALUES (?)", (number,))


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def numbers(connection: sqlite3.Connection) -> list[int]:
    return [number for (number,) in connection.execute("SELECT number FROM numbers ORDER BY number")]


async def test_what_was_written_is_there_for_the_next(file: SqliteFile, tmp_path: Path) -> None:
    """Even without `aclose`: as after a kill."""
    await file.run(lambda connection: put(1, connection))
    other = SqliteFile(tmp_path / "db")
    found = await other.run(numbers)
    await other.aclose()

    assert [1] == found


async def test_what_raises_writes_nothing(file: SqliteFile) -> None:
    """And the next transaction is as good as ever."""

    def fail(connection: sqlite3.Connection) -> None:
        put(1, connection)
        raise ValueError("halfway")

    with pytest.raises(ValueError, match="halfway"):
        await file.run(fail)
    await file.run(lambda connection: put(2, connection))

    assert [2] == await file.run(numbers)


async def test_a_fault_of_whoever_asks_is_told_as_it_is(file: SqliteFile) -> None:
    """The file is not to blame for a number that is there already."""
    await file.run(lambda connection: put(1, connection))

    with pytest.raises(sqlite3.IntegrityError):
        await file.run(lambda connection: put(1, connection))


async def test_everything_runs_in_one_thread_that_is_not_the_loops(file: SqliteFile) -> None:
    threads = {await file.run(lambda _: threading.get_ident()) for _ in range(5)}

    assert 1 == len(threads)
    assert threading.get_ident() not in threads


async def test_only_the_owner_may_read_it(file: SqliteFile, tmp_path: Path) -> None:
    """What SQLite puts beside it too."""
    await file.run(lambda connection: put(1, connection))

    assert {"db": 0o600, "db-wal": 0o600, "db-shm": 0o600} == modes_in(tmp_path)


@pytest.mark.parametrize("content", [b"This is no database. " * 100, None], ids=["no database", "a folder"])
async def test_what_cannot_be_used_is_away(tmp_path: Path, content: bytes | None) -> None:
    """And says which file, and why."""
    path = tmp_path / "db"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    file = SqliteFile(path)

    with pytest.raises(StoreAway, match="The file db cannot be used: "):
        await file.run(create)
    await file.aclose()


async def test_a_full_disk_is_told_and_survived(file: SqliteFile) -> None:
    """Nothing of what did not fit is there; what fits later is."""

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count = 4")
        connection.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in range(100_000)])

    with pytest.raises(StoreAway, match="full"):
        await file.run(fill)
    await file.run(lambda connection: put(7, connection))

    assert [7] == await file.run(numbers)


async def test_in_memory_everything_works() -> None:
    """Until the end, in one connection."""
    file = SqliteFile(MEMORY)
    await file.run(create)
    await file.run(lambda connection: put(1, connection))

    assert [1] == await file.run(numbers)
    await file.aclose()


async def test_many_may_open_a_new_file_at_the_same_moment(tmp_path: Path) -> None:
    """A gateway and commands beside it: one of them puts the file into WAL mode, for which SQLite does not wait."""
    for number in range(20):
        files = [SqliteFile(tmp_path / f"{number}.db") for _ in range(8)]
        modes = await asyncio.gather(
            *(each.run(lambda c: c.execute("PRAGMA journal_mode").fetchone()) for each in files)
        )
        await asyncio.gather(*(each.aclose() for each in files))

        assert [("wal",)] * 8 == modes


def _mode(connection: sqlite3.Connection) -> tuple[str]:
    mode: tuple[str] = connection.execute("PRAGMA journal_mode").fetchone()
    return mode
