import asyncio
import sqlite3
from pathlib import Path

import pytest

from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger.sqlite_book import CHUNK, book
from gateway.tenancy.ledger.sqlite_usage import SqliteUsage, create, page
from gateway.tenancy.ledger.usage_store import Filter, Period, RecordQuery, SumQuery
from tests.gateway.tenancy.ledger.examples import an_entry, sqlite_ledger

NOVEMBER = Period.month("2026-11")


@pytest.fixture
def connection() -> sqlite3.Connection:
    opened = sqlite3.connect(":memory:", isolation_level=None)
    create(opened)
    return opened


def test_tables_are_made_once(connection: sqlite3.Connection) -> None:
    book(connection, [an_entry()])
    create(connection)

    assert (1,) == connection.execute("SELECT count(*) FROM usage_records").fetchone()
    connection.close()


def test_a_booking_that_is_rolled_back_never_was(connection: sqlite3.Connection) -> None:
    """Neither its records nor its sums."""
    connection.execute("BEGIN")
    book(connection, [an_entry(user="ann")])
    connection.execute("ROLLBACK")

    for table in ("usage_records", "usage_sums", "usage_users", "usage_new_users", "usage_teams"):
        assert (0,) == connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    connection.close()


def test_nothing_to_book_is_nothing(connection: sqlite3.Connection) -> None:
    book(connection, [])

    assert (0,) == connection.execute("SELECT count(*) FROM usage_sums").fetchone()
    connection.close()


def test_a_request_is_one_row_with_a_column_for_each_field(connection: sqlite3.Connection) -> None:
    """SQL queries see records, and not batches."""
    book(connection, [an_entry(user="ann", fell_back=True), an_entry(team="red", cost_usd=0.5)])

    query = 'SELECT day, team, "key", "user", prompt_tokens, cost_usd, fell_back FROM usage_records ORDER BY id'
    first, second = connection.execute(query).fetchall()
    assert ("2026-11-21", "blue", "ci", "ann", 100, 0.001, 1) == first
    assert ("2026-11-21", "red", "ci", None, 100, 0.5, 0) == second
    connection.close()


def test_records_are_numbered_through_however_they_were_booked(connection: sqlite3.Connection) -> None:
    """One by one, together, or more than a chunk has room for."""
    book(connection, [an_entry()])
    book(connection, [an_entry()] * (CHUNK + 2))
    book(connection, [an_entry()])

    (numbers,) = connection.execute("SELECT group_concat(id - (SELECT min(id) FROM usage_records)) FROM usage_records")
    assert ",".join(map(str, range(CHUNK + 4))) == numbers[0]
    sizes = connection.execute("SELECT size FROM usage_chunks ORDER BY id").fetchall()
    assert [(1,), (CHUNK,), (2,), (1,)] == sizes
    connection.close()


async def test_records_are_forgotten_with_what_leads_to_them() -> None:
    async with sqlite_ledger() as ledger:
        await ledger.book([an_entry("2026-11-20"), an_entry("2026-11-20", team="red"), an_entry("2026-11-21")])
        await ledger.usage.forget(records_before="2026-11-21", sums_before="2026-11-20")
        (left,) = (await ledger.usage.records(RecordQuery(period=NOVEMBER))).items
        of_red = await ledger.usage.records(RecordQuery(period=NOVEMBER, of=Filter(team="red")))

    assert "blue" == left.team
    assert [] == of_red.items


def test_sums_take_a_row_for_what_is_alike(connection: sqlite3.Connection) -> None:
    """However many requests there were."""
    for _ in range(3):
        book(connection, [an_entry(user="ann"), an_entry(user="bob"), an_entry(model="big")])

    query = "SELECT model, requests FROM usage_sums ORDER BY model"
    assert [("big", 3), ("tiny", 6)] == connection.execute(query).fetchall()
    connection.close()


@pytest.mark.parametrize("of", [Filter(), Filter(team="blue"), Filter(team="blue", key="ci")])
def test_a_page_is_read_without_sorting_all_that_there_is(connection: sqlite3.Connection, of: Filter) -> None:
    """The test asks SQLite for the plan of each statement."""
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    page(connection, RecordQuery(period=NOVEMBER, of=of), below=None, most=10, scanned=100)
    connection.set_trace_callback(None)

    plans = [row[3] for one in statements for row in connection.execute(f"EXPLAIN QUERY PLAN {one}")]
    assert 1 == len(statements)
    assert all(plan.startswith("SEARCH") for plan in plans)
    connection.close()


def test_booking_reads_what_it_books_and_no_more(connection: sqlite3.Connection) -> None:
    """However much is in the table already."""
    book(connection, [an_entry(user="ann")])
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    book(connection, [an_entry(user="ann")])
    connection.set_trace_callback(None)

    plans = [row[3] for one in statements for row in connection.execute(f"EXPLAIN QUERY PLAN {one}")]
    assert 5 < len(statements)
    assert not [plan for plan in plans if plan.startswith("SCAN") or "USING INDEX" in plan]
    connection.close()


async def test_committed_rows_are_visible_to_another_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    writer = SqliteFile(path)
    await writer.run(create)
    await writer.run(lambda connection: book(connection, [an_entry()]))
    reader = SqliteFile(path)

    (one,) = await SqliteUsage(reader).sums(SumQuery(period=NOVEMBER))

    assert 1 == one.requests
    await asyncio.gather(writer.aclose(), reader.aclose())


@pytest.mark.parametrize("text", ["' OR 1=1 --", '"; DROP TABLE usage_sums; --', "%", "?1"])
async def test_values_of_queries_are_never_read_as_sql(text: str) -> None:
    async with sqlite_ledger() as ledger:
        await ledger.book([an_entry(team="red", user="ann")])
        everywhere = Filter(team=text, key=text, project=text, model=text, backend=text)

        assert [] == await ledger.usage.sums(SumQuery(period=NOVEMBER, of=everywhere, by=("team",)))
        assert [] == await ledger.usage.users(text, text, user=text)
        assert [] == (await ledger.usage.records(RecordQuery(period=NOVEMBER, of=everywhere, user=text))).items
        assert ["red"] == await ledger.usage.teams()
