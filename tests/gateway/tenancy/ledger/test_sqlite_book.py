import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.measures import Measures, measures_of
from gateway.tenancy.ledger.record import Outcome
from gateway.tenancy.ledger.sqlite_book import book, ids_of
from gateway.tenancy.ledger.sqlite_usage import create
from tests.gateway.tenancy.ledger.examples import an_entry

OUTCOMES: tuple[Outcome, ...] = ("ok", "aborted", "failed", "lost")
Sums = dict[tuple[str, ...], list[int]]
PLACES = ("team", "key", "project", "model", "backend")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:", isolation_level=None)
    create(opened)
    yield opened
    opened.close()


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    return an_entry(
        draw(st.sampled_from(["2026-11-20", "2026-11-21"])),
        team=draw(st.sampled_from(["blue", "red"])),
        project=draw(st.sampled_from([None, "web"])),
        user=draw(st.sampled_from([None, "ann", "bob"])),
        backend=draw(st.sampled_from([None, "w1", "bedrock"])),
        outcome=draw(st.sampled_from(OUTCOMES)),
        prompt_tokens=draw(st.integers(0, 100)),
        cost_usd=draw(st.integers(0, 10**12)) / 1e9,
        fell_back=draw(st.booleans()),
    )


@given(booked=st.lists(st.lists(entries(), max_size=8), max_size=3))
def test_sums_are_those_of_the_records_however_they_were_booked(booked: list[list[Entry]]) -> None:
    """Oracle: each entry by itself, added up one by one."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create(connection)
    expected: Sums = {}
    users: Sums = {}
    for batch in booked:
        book(connection, batch)
        for each in batch:
            measures = measures_of(each)
            places: list[tuple[Sums, tuple[str, ...]]] = [
                (expected, (each.day, *(getattr(each, name) or "" for name in PLACES)))
            ]
            if each.user is not None:
                places.append((users, (each.team, each.user)))
            for sums, place in places:
                sums[place] = [a + b for a, b in zip(sums.get(place, [0] * len(measures)), measures, strict=True)]

    names = ", ".join(Measures._fields)
    rows = connection.execute(f'SELECT day, team, "key", project, model, backend, {names} FROM usage_sums').fetchall()
    of_users = connection.execute(f'SELECT team, "user", {names} FROM usage_users').fetchall()
    connection.close()
    assert expected == {row[:6]: list(row[6:]) for row in rows}
    assert users == {row[:2]: list(row[2:]) for row in of_users}


def test_a_batch_of_two_days_is_numbered_by_day(connection: sqlite3.Connection) -> None:
    days = ("2026-11-21", "2026-11-20", "2026-11-21")
    book(connection, [an_entry(day, request_id=f"r{number}") for number, day in enumerate(days)])

    rows = connection.execute("SELECT id, day, request_id FROM usage_records ORDER BY id").fetchall()
    before, after = ids_of("2026-11-20", "2026-11-20")[0], ids_of("2026-11-21", "2026-11-21")[0]
    assert [(before, "2026-11-20", "r1"), (after, "2026-11-21", "r0"), (after + 1, "2026-11-21", "r2")] == rows


def test_ids_of_a_day_end_where_those_of_the_next_begin() -> None:
    assert ids_of("2026-11-20", "2026-11-20")[1] + 1 == ids_of("2026-11-21", "2026-11-21")[0]
