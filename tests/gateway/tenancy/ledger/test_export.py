import csv
import io
import json
from collections.abc import AsyncIterator

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.export import FORMULA, PAGE, records_csv, records_jsonl, sums_csv
from gateway.tenancy.ledger.measures import Measures
from gateway.tenancy.ledger.record import FIELDS, UsageRecord
from gateway.tenancy.ledger.usage_store import Period, RecordQuery, UsageSum
from tests.gateway.tenancy.ledger.examples import a_record, an_entry, sqlite_ledger

NOVEMBER = RecordQuery(period=Period.month("2026-11"))


async def text_of(pieces: AsyncIterator[bytes]) -> str:
    return b"".join([piece async for piece in pieces]).decode()


async def csv_of(record: UsageRecord) -> str:
    """The line of *record*, without the line of names."""
    async with sqlite_ledger() as ledger:
        await ledger.book([Entry.from_record("2026-11-21", record)])
        return (await text_of(records_csv(ledger.usage, NOVEMBER))).partition("\r\n")[2]


async def test_csv_has_names_and_then_records() -> None:
    async with sqlite_ledger() as ledger:
        await ledger.book([an_entry()])
        text = await text_of(records_csv(ledger.usage, NOVEMBER))

    assert (
        "time,request_id,team,project,key,user,model_asked,model,backend,outcome,status,"
        "prompt_tokens,cached_tokens,completion_tokens,cost_usd,saved_usd,fell_back,ttft_ms,duration_ms\r\n"
        "2026-11-21T08:00:00.000Z,req-1,blue,,ci,,small,tiny,w1,ok,200,100,60,20,0.001,0.0004,false,31.5,250\r\n"
    ) == text


async def test_csv_quotes_as_rfc_4180_says() -> None:
    line = await csv_of(a_record(user='a,"b"\nc'))

    assert ',"a,""b""\nc",' in line


async def test_csv_never_writes_exponents() -> None:
    """Spreadsheets set to some languages read 1e-09 as a text."""
    line = await csv_of(a_record(cost_usd=1e-9, saved_usd=0.0))

    assert ",0.000000001,0,false," in line


async def test_csv_disarms_what_a_spreadsheet_would_calculate() -> None:
    for first in FORMULA:
        line = await csv_of(a_record(user=f"{first}1+1", model_asked="plain"))
        (row,) = csv.reader(io.StringIO(line, newline=""))

        assert f"'{first}1+1" == row[FIELDS.index("user")]
        assert "plain" == row[FIELDS.index("model_asked")]


async def test_an_amount_below_zero_is_a_number_all_the_same() -> None:
    """A cached token may cost more than a computed one."""
    assert ",-0.5,false," in await csv_of(a_record(saved_usd=-0.5))


async def test_json_lines_are_the_records() -> None:
    odd = a_record(user='a\n"b"', request_id="req-2")
    async with sqlite_ledger() as ledger:
        await ledger.book([an_entry(), Entry.from_record("2026-11-21", odd)])
        lines = (await text_of(records_jsonl(ledger.usage, NOVEMBER))).splitlines()

    assert [odd, a_record()] == [msgspec.json.decode(line, type=UsageRecord) for line in lines]
    assert list(FIELDS) == list(json.loads(lines[0]))


async def test_an_export_goes_on_from_page_to_page() -> None:
    """In pieces of whole lines, none of which holds everything."""
    many = 2 * PAGE + 1
    async with sqlite_ledger() as ledger:
        await ledger.book([an_entry(request_id=str(number)) for number in range(many)])
        pieces = [piece async for piece in records_jsonl(ledger.usage, NOVEMBER)]

    assert [PAGE, PAGE, 1] == [piece.count(b"\n") for piece in pieces]
    assert all(piece.endswith(b"\n") for piece in pieces)
    ids = [json.loads(line)["request_id"] for line in b"".join(pieces).splitlines()]
    assert [str(number) for number in reversed(range(many))] == ids


async def test_an_export_of_nothing_is_its_names() -> None:
    async with sqlite_ledger() as ledger:
        assert 1 == (await text_of(records_csv(ledger.usage, NOVEMBER))).count("\r\n")
        assert "" == await text_of(records_jsonl(ledger.usage, NOVEMBER))


def test_sums_begin_with_what_they_are_grouped_by() -> None:
    sums = [
        UsageSum.from_group(
            {"team": "blue", "project": None}, Measures(requests=2, prompt_tokens=7, cost_nano=1_500_000_000)
        ),
        UsageSum.from_group({"team": "red", "project": "=web"}, Measures(requests=1)),
    ]

    assert (
        b"team,project,requests,failed,aborted,lost,fallbacks,prompt_tokens,cached_tokens,completion_tokens,"
        b"cost_usd,saved_usd,fallback_cost_usd\r\n"
        b"blue,,2,0,0,0,0,7,0,0,1.5,0,0\r\n"
        b"red,'=web,1,0,0,0,0,0,0,0,0,0,0\r\n"
    ) == sums_csv(sums)
    assert b"" == sums_csv([])


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_any_user_is_one_cell(user: str) -> None:
    """Read back by a reader of CSV, the columns behind it are where they were."""
    record = structs.astuple(a_record(user=user))
    (group,) = [UsageSum.from_group({"user": user, "team": "blue"}, Measures())]
    rows = list(csv.reader(io.StringIO(sums_csv([group]).decode(), newline="")))

    assert len(record) == len(FIELDS)
    assert [user.removeprefix("'"), "blue"] == [rows[1][0].removeprefix("'"), rows[1][1]]
