"""The schema version of SQLite files."""

import sqlite3
from contextlib import closing

import pytest

from gateway.storage.schema import migrate, version_of


def test_migrations_run_once_in_their_order_or_not_at_all() -> None:
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

        assert 2 == version_of(connection)
        assert [("b",)] == connection.execute("SELECT name FROM sqlite_master").fetchall()
