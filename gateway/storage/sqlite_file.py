"""One SQLite file in WAL mode, used by its own thread, so the event loop never waits for a disk.

Its schema version is ``PRAGMA user_version`` (https://www.sqlite.org/pragma.html#pragma_user_version), written in the
same transaction as the tables. 0 is a new file, or a file of a release without versions.
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
"""Brings a file from one schema version to the next, inside the open transaction."""

BUSY_S = 5.0
"""Time for which another process may lock the file, such as a command that creates a key."""
ATTEMPTS = 100
"""Attempts in that time for operations for which SQLite itself does not wait."""
FREE_SHARE = 0.25
"""Share of the pages of a file that may be free: the next days fill them again."""
KEPT_PAGES = 1000
"""Pages that may be free in any case, 4 MB."""


_FILE_ERRORS = (sqlite3.OperationalError, sqlite3.DatabaseError)
"""Errors of the file: locked, full, read-only, not a database, malformed. Their subclasses are errors of the caller."""


class SqliteFile:
    """Runs functions with a connection one after the other. Commits survive a kill of the process.

    A new file is readable by its owner only, because it contains digests of keys. `MEMORY` is lost with the object.

    ``synchronous=NORMAL``: after a power failure the last commits may be missing, but the file is consistent
    (https://www.sqlite.org/pragma.html#pragma_synchronous).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")
        self._connection: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        """Device and inode of the open file."""

    @property
    def path(self) -> Path:
        return self._path

    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of *act*, which runs in its own transaction; if it raises, nothing is written.

        A cancelled caller gets no result, but *act* may still be executed.

        Raises:
            StoreUnavailable: the file cannot be used.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._act, act)

    async def compact(self) -> bool:
        """Rewrite the file if much of it is free and it cannot release pages in steps; return whether it was rewritten.

        The file is locked meanwhile, some seconds for each GB, so call this before requests are served.

        Raises:
            StoreUnavailable: the file cannot be used, or its disk has no space for a copy.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._compact)

    def check_place(self) -> None:
        """Check that the open file is still the one at its path; for functions that `run` executes.

        Raises:
            StoreUnfit: the file was removed or replaced.
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
            raise StoreUnavailable(f"The file {self._path.name} cannot be used: {fault}") from None
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
            raise StoreUnavailable(f"The file {self._path.name} cannot be used: {fault}") from None
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
    """Release up to *limit* free pages to the disk; return whether enough are left to continue.

    Files of earlier releases cannot do this, see `SqliteFile.compact`.
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
    """Run the *migrations* that the file has not seen, and return its former version.

    Raises:
        StoreUnfit: the file was written by a later release of Warmgate. Nothing is changed.
    """
    former, known = schema_version(connection), len(migrations)
    if former > known:
        text = f"The file has schema {former}, and this version of Warmgate knows only {known}. Use a later version"
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
    """Switch to WAL mode, once for each file. SQLite does not wait while another process does the same."""
    for attempt in range(ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if attempt + 1 == ATTEMPTS:
                raise
            time.sleep(BUSY_S / ATTEMPTS)
        else:
            return
