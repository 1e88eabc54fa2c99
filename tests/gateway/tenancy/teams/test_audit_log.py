import pytest

from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.audit_log import entry_in, page_of, row_of

ENTRIES = [
    AuditEntry(time=f"2026-11-21T00:00:0{n}.000Z", who="ops", role="owner", action="create", kind="team", id=f"t{n}")
    for n in range(3)
]
ROWS = [(f"c{n}", row_of(entry)) for n, entry in enumerate(ENTRIES)]


def test_logged_changes_can_be_read() -> None:
    entry = AuditEntry(
        time="2026-11-21T00:00:00.000Z",
        who="ops",
        role="owner",
        action="update",
        kind="key",
        id="ci",
        team="blue",
        before={"blocked": False},
        after={"blocked": True, "limits": {"concurrent": 5}},
    )

    assert entry == entry_in(row_of(entry))


def test_a_page_names_where_the_next_one_begins() -> None:
    page = page_of(ROWS, 2)

    assert (ENTRIES[:2], "c1") == (list(page.items), page.next)


def test_the_last_page_names_none() -> None:
    assert (ENTRIES, None) == (list(page_of(ROWS, 3).items), page_of(ROWS, 3).next)
    assert ([], None) == (list(page_of([], 3).items), page_of([], 3).next)


def test_a_page_has_room_for_something() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        page_of(ROWS, 0)
