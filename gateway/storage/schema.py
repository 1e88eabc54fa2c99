"""Schema version of a SQLite file: migrations go forward, and a file of a later version is refused.

The version is ``PRAGMA user_version`` (https://www.sqlite.org/pragma.html#pragma_user_version), which is written in the
same transaction as the tables. 0 is a new file, or one of a version of Warmgate that did not count.
"""

import sqlite3
from collections.abc import Callable, Sequence

from gateway.storage.unfit import StoreUnfit

Migration = Callable[[sqlite3.Connection], None]
"""Brings a file from one version to the next, in the transaction that is open."""


def version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    assert isinstance(version, int)
    return version


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> int:
    """Carry out those *migrations* that the file has not seen, and return its former version.

    Raises:
        StoreUnfit: the file was written by a later version of Warmgate. Nothing is changed.
    """
    former, known = version_of(connection), len(migrations)
    if former > known:
        text = f"The file has schema {former}, and this version of Warmgate knows {known}: use a later one"
        raise StoreUnfit(text, state="newer")
    for migration in migrations[former:]:
        migration(connection)
    if former < known:
        connection.execute(f"PRAGMA user_version = {known}")
    return former
