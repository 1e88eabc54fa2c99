"""SQLite file in WAL mode with a dedicated thread, so that disk access never blocks the event loop.

The schema version is stored as ``PRAGMA user_version`` (https://www.sqlite.org/pragma.html#pragma_user_version), in the
same transaction as the tables. Version 0 means a new file, or a file from a release without schema versions.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.unfit import StoreUnfit, lost, replaced

T = TypeVar("T")

MEMORY = Path(":memory:")

Migration = Callable[[sqlite3.Connection], None]
"""Function that upgrades the file to the next schema version, inside the open transaction."""

BUSY_S = 5.0
"""Seconds to wait until another process, such as a command that creates a key, unlocks the file."""
ATTEMPTS = 100
"""Number of attempts within `BUSY_S` at an operation for which SQLite itself does not wait."""
FREE_SHARE = 0.25
"""Fraction of free pages above which the file is compacted. Fewer free pages are kept for the data of the next days."""
KEPT_PAGES = 1000
"""Number of free pages (4 MB) that the file is always allowed to keep."""


_FILE_ERRORS = (sqlite3.OperationalError, sqlite3.DatabaseError)
"""Errors caused by the file, which is locked, full, read-only, malformed or not a database.

Subclasses are programming errors.
"""


class SqliteFile:
    """Connection to the file that runs functions one at a time. Committed data survives if the process is killed.

    A new file is readable only by its owner, because it contains key digests. With the path `MEMORY`, the data is lost
    when the object is closed.

    The file uses ``synchronous=NORMAL``. After a power failure the last commits may be missing, but the file is
    consistent (https://www.sqlite.org/pragma.html#pragma_synchronous).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")
        self._connection: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        """Device and inode of the open file, or None for a database in memory."""

    @property
    def path(self) -> Path:
        return self._path

    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run the function *act* in a transaction and return its result. If *act* raises, roll the transaction back.

        If the caller is cancelled, *act* may still run, and its result is discarded.

        Raises:
            StoreUnavailable: if the file cannot be used.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._act, act)

    async def compact(self) -> bool:
        """Rewrite a file that is mostly free and cannot release pages in steps. Return whether it was rewritten.

        Call this before requests are served, because the file is locked for some seconds per GB.

        Raises:
            StoreUnavailable: if the file cannot be used, or the disk has no space for a copy.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._compact)

    def check_place(self) -> None:
        """Raise an error unless the path leads to the open file. Call this only from a function that `run` executes.

        Raises:
            StoreUnfit: if the file was removed or replaced.
        """
        if self._place is not None and self._place != (found := _place_of(self._path)):
            raise lost() if found is None else replaced()

    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _act(self, act: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection = self._connected()
            try:
                connection.execute("BEGIN IMMEDIATE")
                result = act(connection)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:  # some errors, such as a full disk, have ended it already
                    connection.execute("ROLLBACK")
        except sqlite3.DatabaseError as fault:
            if type(fault) not in _FILE_ERRORS:
                raise
            raise StoreUnavailable(f"The SQLite file {self._path.name} cannot be used: {fault}") from None
        return result

    def _compact(self) -> bool:
        try:
            connection = self._connected()
            (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
            if mode or not _is_mostly_free(connection):
                return False
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("VACUUM")
        except _FILE_ERRORS as fault:
            raise StoreUnavailable(f"The SQLite file {self._path.name} cannot be used: {fault}") from None
        return True

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            with suppress(OSError):  # SQLite reports it better
                if self._path != MEMORY:
                    self._path.touch(0o600)  # the files that SQLite adds get the same permissions
            connection = sqlite3.connect(
                self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=512
            )
            try:
                # Has an effect only before the first table exists: free pages can later be released in steps.
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
                _into_wal(connection)
                connection.execute("PRAGMA synchronous=NORMAL")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            self._place = None if self._path == MEMORY else _place_of(self._path)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def release_pages(connection: sqlite3.Connection, *, limit: int) -> bool:
    """Release up to *limit* free pages to the disk. Return whether enough free pages remain for another call.

    Files created by early releases cannot release pages in steps. `SqliteFile.compact` converts them.
    """
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if mode == 0 or not _is_mostly_free(connection):
        return False
    for _ in range(
        limit
    ):  # Python makes one step of a statement without columns, and SQLite releases one page each step
        connection.execute("PRAGMA incremental_vacuum(1)")
    return _is_mostly_free(connection)


def schema_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    assert isinstance(version, int)
    return version


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> int:
    """Run those of *migrations* that have not been applied to the file, and return the previous schema version.

    Raises:
        StoreUnfit: if a later release of Warmgate wrote the file, which then stays unchanged.
    """
    former, known = schema_version(connection), len(migrations)
    if former > known:
        text = (
            f"The file has schema version {former}, but this Warmgate supports versions up to {known}. "
            "Use a later Warmgate"
        )
        raise StoreUnfit(text, state="newer")
    for migration in migrations[former:]:
        migration(connection)
    if former < known:
        connection.execute(f"PRAGMA user_version = {known}")
    return former


def _is_mostly_free(connection: sqlite3.Connection) -> bool:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    return bool(free > KEPT_PAGES and free > FREE_SHARE * pages)


def _place_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _into_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL mode. Retry while another process does the same, because SQLite does not wait for this."""
    for attempt in range(ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if attempt + 1 == ATTEMPTS:
                raise
            time.sleep(BUSY_S / ATTEMPTS)
        else:
            return
