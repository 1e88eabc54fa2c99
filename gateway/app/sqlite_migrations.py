"""Schema of the SQLite file, version by version.

A change of a table is one more function at the end of `MIGRATIONS`, in SQL that is written out: what stands here before
is history. A new table that other versions pass over needs none.
"""

import sqlite3

from gateway.api.admin_v1 import sqlite_claims
from gateway.storage.sqlite_file import Migration
from gateway.tenancy.ledger import sqlite_usage
from gateway.tenancy.quota import checkpoints as marks
from gateway.tenancy.teams import sqlite_teams


def _first(connection: sqlite3.Connection) -> None:
    """Create the missing tables of 0.x and the table for the store's identity."""
    for create in (sqlite_teams.create, sqlite_usage.create, sqlite_claims.create, marks.create):
        create(connection)


MIGRATIONS: tuple[Migration, ...] = (_first,)
