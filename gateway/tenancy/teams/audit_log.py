"""The log of who changed what, as stores of teams keep it: newest first, page by page."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from gateway.tenancy.ledger.audit import AuditEntry, AuditPage
from gateway.tenancy.ledger.cursor import Page

KEPT = 100_000
"""Entries; older ones are dropped. At some 1 kB each that is 100 MB."""

Ordinal = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""Number in a cursor, which anybody may have written: no more than SQLite and Redis accept."""


def row_of(entry: AuditEntry) -> bytes:
    return msgspec.json.encode(entry)


def entry_in(row: bytes) -> AuditEntry:
    return msgspec.json.decode(row, type=AuditEntry)


def page_of(rows: Sequence[tuple[str, bytes]], most: int) -> AuditPage:
    """Return the first *most* of *rows*, each with the cursor after it. A further row means that there is a next page.

    Raises:
        ValueError: *most* is below 1.
    """
    if most < 1:
        raise ValueError("the page size must be at least 1")
    next_ = rows[most - 1][0] if len(rows) > most else None
    return Page([entry_in(row) for _, row in rows[:most]], next_)
