"""Audit log of changes to teams and keys in the form that stores keep. Entries are read newest first, in pages."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from gateway.tenancy.ledger.audit import AuditEntry, AuditPage
from gateway.tenancy.ledger.cursor import Page

KEPT = 100_000
"""Maximum number of audit log entries. Older entries are dropped. At some 1 kB each, they take 100 MB."""

Ordinal = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""Number in a cursor, within the range that both SQLite and Redis accept. Callers can forge cursors."""


def row_of(entry: AuditEntry) -> bytes:
    return msgspec.json.encode(entry)


def entry_in(row: bytes) -> AuditEntry:
    return msgspec.json.decode(row, type=AuditEntry)


def page_of(rows: Sequence[tuple[str, bytes]], most: int) -> AuditPage:
    """Return a page of the first *most* rows. Each row comes with the cursor for the position after it. If there are
    more than *most* rows, there is a next page.

    Raises:
        ValueError: if *most* is below 1.
    """
    if most < 1:
        raise ValueError("the page size must be at least 1")
    next_ = rows[most - 1][0] if len(rows) > most else None
    return Page([entry_in(row) for _, row in rows[:most]], next_)
