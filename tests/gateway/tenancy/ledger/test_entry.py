import msgspec
import pytest

from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.record import FIELDS, UsageRecord
from tests.gateway.tenancy.ledger.examples import a_record

NAMELESS = a_record(project="web", user="ann", backend=None, fell_back=True, ttft_ms=None, cost_usd=0.123456789)


@pytest.mark.parametrize("record", [a_record(), NAMELESS])
def test_an_entry_is_read_as_the_record_that_it_was_made_of(record: UsageRecord) -> None:
    entry = Entry.from_record("2026-11-21", record)

    assert ("2026-11-21", record) == (entry.day, entry.record)


@pytest.mark.parametrize("record", [a_record(), NAMELESS])
def test_a_row_has_the_fields_of_the_record_in_their_order(record: UsageRecord) -> None:
    row = Entry.from_record("2026-11-21", record).row()

    assert msgspec.structs.asdict(record) == dict(zip(FIELDS, row, strict=True))


def test_money_is_whole_nano_dollars() -> None:
    entry = Entry.from_record("2026-11-21", a_record(cost_usd=0.1 + 0.2, saved_usd=1e-9))

    assert (300_000_000, 1) == (entry.cost_nano, entry.saved_nano)


def test_an_entry_equals_what_says_the_same_of_the_same_day() -> None:
    entry = Entry.from_record("2026-11-21", a_record())

    assert entry == Entry.from_record("2026-11-21", a_record())
    assert hash(entry) == hash(Entry.from_record("2026-11-21", a_record()))
    assert entry not in (
        Entry.from_record("2026-11-22", a_record()),
        Entry.from_record("2026-11-21", a_record(status=500)),
        a_record(),
    )


def test_an_entry_that_is_made_is_its_own_draft() -> None:
    entry = Entry.from_record("2026-11-21", a_record())

    assert entry is entry()


def test_an_entry_says_what_it_is() -> None:
    assert f"Entry(day='2026-11-21', record={a_record()!r})" == repr(Entry.from_record("2026-11-21", a_record()))
