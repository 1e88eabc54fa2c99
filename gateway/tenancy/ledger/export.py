"""Export of the ledger to spreadsheets and programs, as CSV (RFC 4180) and as one JSON object per line.

End users choose their names. A text cell that a spreadsheet would read as a formula therefore gets an apostrophe prefix
(https://owasp.org/www-community/attacks/CSV_Injection).
"""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import structs

from gateway.tenancy.ledger.record import FIELDS, UsageRecord
from gateway.tenancy.ledger.usage_store import RecordQuery, UsageStore, UsageSum

PAGE = 500
"""Number of ledger records to read and send at a time, about 200 kB."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


async def records_csv(store: UsageStore, query: RecordQuery) -> AsyncIterator[bytes]:
    """Yield ledger records as CSV, newest first, in chunks of whole lines. The first line contains the column names.

    Raises:
        StoreUnavailable: if the store cannot be reached, possibly after some lines were sent.
    """
    yield _lines([FIELDS])
    async for records in _pages(store, query):
        yield _lines(structs.astuple(record) for record in records)


async def records_jsonl(store: UsageStore, query: RecordQuery) -> AsyncIterator[bytes]:
    """Yield ledger records as JSON objects, one per line, newest first, in chunks of whole lines. Raises the same
    errors as `records_csv`.
    """
    encoder = msgspec.json.Encoder()
    async for records in _pages(store, query):
        yield encoder.encode_lines(records)


def sums_csv(sums: Sequence[UsageSum], by: Sequence[str] = ()) -> bytes:
    """Return *sums* as CSV. The first line contains the column names, starting with the groups.

    *by* contains the groups of an empty table. If there are neither sums nor groups, the result is empty.
    """
    if not sums and not by:
        return b""
    measures = UsageSum.__struct_fields__[1:]
    names = (*(sums[0].group if sums else by), *measures)
    return _lines([names, *((*each.group.values(), *(getattr(each, name) for name in measures)) for each in sums)])


async def _pages(store: UsageStore, query: RecordQuery) -> AsyncIterator[Sequence[UsageRecord]]:
    cursor: str | None = None
    while True:
        page = await store.records(query, cursor=cursor, most=PAGE)
        if page.items:
            yield page.items
        cursor = page.next
        if cursor is None:
            return


def _lines(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return value
