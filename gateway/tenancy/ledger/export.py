"""The ledger for spreadsheets and programs: CSV by RFC 4180, and one JSON object per line.

A text cell that a spreadsheet would read as a formula gets an apostrophe before it, because end users choose their
names (https://owasp.org/www-community/attacks/CSV_Injection).
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
"""Records that are read and sent at once, about 200 kB."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


async def records_csv(store: UsageStore, query: RecordQuery) -> AsyncIterator[bytes]:
    """Yield a line of names and one line per record, newest first, in pieces of whole lines.

    Raises:
        StoreUnavailable: possibly after some whole lines.
    """
    yield _lines([FIELDS])
    async for records in _pages(store, query):
        yield _lines(structs.astuple(record) for record in records)


async def records_jsonl(store: UsageStore, query: RecordQuery) -> AsyncIterator[bytes]:
    """Yield one object per record, newest first, in pieces of whole lines. Raises what `records_csv` raises."""
    encoder = msgspec.json.Encoder()
    async for records in _pages(store, query):
        yield encoder.encode_lines(records)


def sums_csv(sums: Sequence[UsageSum]) -> bytes:
    """Return a line of names, groups first, and one line per sum. Empty without sums."""
    if not sums:
        return b""
    measures = UsageSum.__struct_fields__[1:]
    names = (*sums[0].group, *measures)
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
