"""The ledger for spreadsheets and programs: CSV as RFC 4180 has it, and a JSON object per line.

A cell of text that a spreadsheet would take for a formula gets an apostrophe before it: end users choose their names
(https://owasp.org/www-community/attacks/CSV_Injection).
"""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import structs

from gateway.ledger.record import FIELDS, UsageRecord
from gateway.ledger.usage_store import RecordQuery, UsageStore, UsageSum

PAGE = 500
"""Records that are fetched and sent at once, some 200 kB."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


async def records_csv(store: UsageStore, query: RecordQuery) -> AsyncIterator[bytes]:
    """A line of names, then one for each record, newest first; in pieces of whole lines.

    Raises:
        StoreAway: in the middle too; what came until then is whole lines.
    """
    yield _lines([FIELDS])
    async for records in _pages(store, query):
        yield _lines(structs.astuple(record) for record in records)


async def records_jsonl(store: UsageStore, query: RecordQuery) -> AsyncIterator[bytes]:
    """An object for each record, newest first; in pieces of whole lines. Raises as `records_csv`."""
    encoder = msgspec.json.Encoder()
    async for records in _pages(store, query):
        yield encoder.encode_lines(records)


def sums_csv(sums: Sequence[UsageSum]) -> bytes:
    """A line of names, those of the groups first, then one for each sum. Empty of no sums."""
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
