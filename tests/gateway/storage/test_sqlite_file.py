"""One SQLite file and its thread."""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.sqlite_file import MEMORY, SqliteFile, migrate, release_pages, schema_version


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


async def test_commits_are_visible_to_the_next_process(file: SqliteFile, tmp_path: Path) -> None:
    """Without `aclose`, as after a kill."""
    await file.run(lambda connection: put(1, connection))
    other = SqliteFile(tmp_path / "db")
    found = await other.run(numbers)
    await other.aclose()

    assert [1] == found


async def test_a_function_that_raises_writes_nothing(file: SqliteFile) -> None:
    """The next transaction works."""

    def fail(connection: sqlite3.Connection) -> None:
        put(1, connection)
        raise ValueError("halfway")

    with pytest.raises(ValueError, match="halfway"):
        await file.run(fail)
    await file.run(lambda connection: put(2, connection))

    assert [2] == await file.run(numbers)


async def test_an_error_of_the_caller_is_raised_unchanged(file: SqliteFile) -> None:
    """The file is not to blame for a duplicate number."""
    await file.run(lambda connection: put(1, connection))

    with pytest.raises(sqlite3.IntegrityError):
        await file.run(lambda connection: put(1, connection))


async def test_everything_runs_in_one_thread_outside_the_loop(file: SqliteFile) -> None:
    threads = {await file.run(lambda _: threading.get_ident()) for _ in range(5)}

    assert 1 == len(threads)
    assert threading.get_ident() not in threads


async def test_only_the_owner_may_read_it(file: SqliteFile, tmp_path: Path) -> None:
    """The files that SQLite adds have the same permissions."""
    await file.run(lambda connection: put(1, connection))

    assert {"db": 0o600, "db-wal": 0o600, "db-shm": 0o600} == modes_in(tmp_path)


@pytest.mark.parametrize("content", [b"This is no database. " * 100, None], ids=["no database", "a folder"])
async def test_a_file_that_cannot_be_used_is_unavailable(tmp_path: Path, content: bytes | None) -> None:
    """The message names the file and the reason."""
    path = tmp_path / "db"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    file = SqliteFile(path)

    with pytest.raises(StoreUnavailable, match="The SQLite file db cannot be used: "):
        await file.run(create)
    await file.aclose()


async def test_a_full_disk_is_reported_and_survived(file: SqliteFile) -> None:
    """A transaction that does not fit writes nothing; later ones work."""

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count = 4")
        connection.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in range(100_000)])

    with pytest.raises(StoreUnavailable, match="full"):
        await file.run(fill)
    await file.run(lambda connection: put(7, connection))

    assert [7] == await file.run(numbers)


async def test_a_file_in_memory_works() -> None:
    """It has one connection until the end."""
    file = SqliteFile(MEMORY)
    await file.run(create)
    await file.run(lambda connection: put(1, connection))

    assert [1] == await file.run(numbers)
    await file.aclose()


async def test_many_processes_can_open_a_new_file_at_once(tmp_path: Path) -> None:
    """One of them switches it to WAL mode, for which SQLite does not wait."""
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


async def test_many_free_pages_are_released_in_steps(tmp_path: Path) -> None:
    """Removed data does not stay on the disk, and no step takes long."""
    file = SqliteFile(tmp_path / "db")
    await file.run(_filled_and_emptied)
    pieces = 1
    while await file.run(lambda connection: release_pages(connection, limit=500)):
        pieces += 1
    pages, free = await file.run(_pages)
    await file.aclose()

    assert (7, True) == (pieces, free <= 1000)
    assert (tmp_path / "db").stat().st_size == 4096 * pages < 4096 * 1100


async def test_a_file_of_an_earlier_release_is_rewritten_once(tmp_path: Path) -> None:
    """It cannot release pages: that has to be set before the first table."""
    with closing(sqlite3.connect(tmp_path / "db")) as connection, connection:
        _filled_and_emptied(connection)
    file = SqliteFile(tmp_path / "db")
    assert not await file.run(lambda connection: release_pages(connection, limit=500))
    done = [await file.compact() for _ in range(2)]
    pages, free = await file.run(_pages)
    await file.aclose()

    assert ([True, False], 0) == (done, free)
    assert pages < 10


def _filled_and_emptied(connection: sqlite3.Connection) -> None:
    """Write 16 MB and remove them."""
    connection.execute("CREATE TABLE large (content BLOB)")
    connection.execute("INSERT INTO large SELECT zeroblob(16 * 1024 * 1024)")
    connection.execute("DELETE FROM large")


def _pages(connection: sqlite3.Connection) -> tuple[int, int]:
    (pages,), (free,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count"))
    return pages, free


def test_migrations_run_once_in_order() -> None:
    def first(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE a (x)")

    def second(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE a RENAME TO b")

    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE b")
        connection.execute("no SQL")

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        assert [0, 1, 2] == [migrate(connection, steps) for steps in ([first], [first, second], [first, second])]
        connection.execute("BEGIN")
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, [first, second, broken])
        connection.execute("ROLLBACK")

        assert 2 == schema_version(connection)
        assert [("b",)] == connection.execute("SELECT name FROM sqlite_master").fetchall()
