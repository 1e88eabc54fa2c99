"""One SQLite file, one thread."""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.errors import StoreAway
from gateway.storage.sqlite_file import MEMORY, SqliteFile, give_back


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


async def test_much_that_is_free_is_given_back_piece_by_piece(tmp_path: Path) -> None:
    """What retention has removed does not stay on the disk, and no piece takes long."""
    file = SqliteFile(tmp_path / "db")
    await file.run(_filled_and_emptied)
    pieces = 1
    while await file.run(lambda connection: give_back(connection, most=500)):
        pieces += 1
    pages, free = await file.run(_pages)
    await file.aclose()

    assert (7, True) == (pieces, free <= 1000)
    assert (tmp_path / "db").stat().st_size == 4096 * pages < 4096 * 1100


async def test_a_file_of_an_earlier_version_is_written_anew_once(tmp_path: Path) -> None:
    """It could give back nothing: that is a property which a file has from its first table on."""
    with closing(sqlite3.connect(tmp_path / "db")) as connection, connection:
        _filled_and_emptied(connection)
    file = SqliteFile(tmp_path / "db")
    assert not await file.run(lambda connection: give_back(connection, most=500))
    done = [await file.compact() for _ in range(2)]
    pages, free = await file.run(_pages)
    await file.aclose()

    assert ([True, False], 0) == (done, free)
    assert pages < 10


def _filled_and_emptied(connection: sqlite3.Connection) -> None:
    """16 MB, and then nothing."""
    connection.execute("CREATE TABLE large (content BLOB)")
    connection.execute("INSERT INTO large SELECT zeroblob(16 * 1024 * 1024)")
    connection.execute("DELETE FROM large")


def _pages(connection: sqlite3.Connection) -> tuple[int, int]:
    (pages,), (free,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count"))
    return pages, free
