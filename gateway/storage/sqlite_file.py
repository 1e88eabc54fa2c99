"""One SQLite file in WAL mode, used by one thread of its own: the event loop never waits for a disk."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from gateway.errors import StoreAway
from gateway.storage.unfit import lost, replaced

T = TypeVar("T")

MEMORY = Path(":memory:")

BUSY_S = 5.0
"""How long another process may hold the file, such as a command that makes a key."""
ATTEMPTS = 100
"""In that time, where SQLite itself does not wait."""
FREE_SHARE = 0.25
"""Of the pages of a file that may be free: the next days will fill them again."""
KEPT_PAGES = 1000
"""That may be free in any case, 4 MB."""


_OF_THE_FILE = (sqlite3.OperationalError, sqlite3.DatabaseError)
"""Locked, full, read-only, no database, malformed. Others of their kind are faults of whoever asked."""


class SqliteFile:
    """Runs functions of a connection one after the other. What was committed survives a kill of the process.

    A file that it makes may be read by its owner alone: it holds digests of keys. `MEMORY` is lost with the object.

    ``synchronous=NORMAL``: after a loss of power the last commits may be missing, but the file is whole
    (https://www.sqlite.org/pragma.html#pragma_synchronous).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")
        self._connection: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        """Device and inode of the file that is open."""

    @property
    def path(self) -> Path:
        return self._path

    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """What *act* returns, in a transaction of its own: all that it writes, or, if it raises, nothing.

        Whoever is cancelled meanwhile hears no answer; it may be carried out all the same.

        Raises:
            StoreAway: the file cannot be used.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._act, act)

    async def compact(self) -> bool:
        """Write the file anew if it cannot give back free pages piece by piece, and much of it is free; whether it did.

        It is locked meanwhile, some seconds for each GB: for the time before requests are served.

        Raises:
            StoreAway: the file cannot be used, or its disk has no room for a second one.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._compact)

    def check_place(self) -> None:
        """Check that the file which is open is still the one at its path; for functions that `run` runs.

        Raises:
            StoreUnfit: it was removed, or another file was put in its place.
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
                if connection.in_transaction:  # some faults, such as a full disk, have ended it already
                    connection.execute("ROLLBACK")
        except sqlite3.DatabaseError as fault:
            if type(fault) not in _OF_THE_FILE:
                raise
            raise StoreAway(f"The file {self._path.name} cannot be used: {fault}") from None
        return result

    def _compact(self) -> bool:
        try:
            connection = self._connected()
            (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
            if mode or not _is_mostly_free(connection):
                return False
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("VACUUM")
        except _OF_THE_FILE as fault:
            raise StoreAway(f"The file {self._path.name} cannot be used: {fault}") from None
        return True

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            with suppress(OSError):  # SQLite says it better
                if self._path != MEMORY:
                    self._path.touch(0o600)  # what SQLite puts beside it gets the same rights
            connection = sqlite3.connect(
                self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=512
            )
            try:
                # Of effect before there is a table: pages that are free later can be given back piece by piece.
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


def give_back(connection: sqlite3.Connection, *, most: int) -> bool:
    """Give back up to *most* free pages to the disk; whether there are so many left that it is worth going on.

    Files of earlier versions give back nothing; see `SqliteFile.compact`.
    """
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if mode == 0 or not _is_mostly_free(connection):
        return False
    for _ in range(most):  # Python steps once through a statement without columns, and SQLite frees a page each step
        connection.execute("PRAGMA incremental_vacuum(1)")
    return _is_mostly_free(connection)


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
    """A file is put into WAL mode once, and while another process is about it SQLite does not wait, as it does else."""
    for attempt in range(ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if attempt + 1 == ATTEMPTS:
                raise
            time.sleep(BUSY_S / ATTEMPTS)
        else:
            return
