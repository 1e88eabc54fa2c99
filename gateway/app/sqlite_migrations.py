"""Schema migrations of the SQLite store, in order of version.

To change a table, append a function with literal SQL to `MIGRATIONS` and leave existing functions unchanged. A new
table that other versions ignore needs no migration.
"""

import sqlite3

from gateway.api.admin_v1 import sqlite_claims
from gateway.storage.sqlite_file import Migration
from gateway.tenancy.ledger import sqlite_usage
from gateway.tenancy.quota import checkpoints as marks
from gateway.tenancy.teams import sqlite_teams


def _first(connection: sqlite3.Connection) -> None:
    """Create the tables of releases 0.x if they are missing, and the table for the store identity."""
    for create in (sqlite_teams.create, sqlite_usage.create, sqlite_claims.create, marks.create):
        create(connection)


MIGRATIONS: tuple[Migration, ...] = (_first,)
