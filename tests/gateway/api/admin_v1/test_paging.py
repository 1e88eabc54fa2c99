"""Lists in pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.admin_v1.paging import PageQuery, listing, of_cursor, page_of
from gateway.protocol.errors import InvalidField


def items(*names: str) -> dict[str, str]:
    return {name: name.upper() for name in sorted(names)}


def test_a_page_ends_where_the_next_one_begins() -> None:
    known = items("a", "b", "c")

    assert (["A", "B"], "b") == page_of(known, PageQuery(limit=2))
    assert (["C"], None) == page_of(known, PageQuery(limit=2, after="b"))
    assert (["A", "B", "C"], None) == page_of(known, PageQuery(limit=3))
    assert ([], None) == page_of(known, PageQuery(limit=3, after="c"))
    assert ([], None) == page_of({}, PageQuery())


def test_a_page_goes_on_behind_what_was_deleted() -> None:
    assert (["C"], None) == page_of(items("a", "c"), PageQuery(after="b"))


def test_a_listing_says_whether_there_is_more() -> None:
    assert {"object": "list", "data": [1], "has_more": True, "next": "x"} == listing([1], "x")
    assert {"object": "list", "data": [], "has_more": False, "next": None} == listing([], None)


names = st.text("abcdef", min_size=1, max_size=2)


@given(st.sets(names), st.lists(st.sets(names), max_size=6), st.integers(1, 4))
def test_what_stays_is_reported_once(staying: set[str], others: list[set[str]], limit: int) -> None:
    """Whatever else comes and goes between the pages."""
    found: list[str] = []
    after: str | None = None
    for step in range(100):
        around = others[step] if step < len(others) else set()
        page, after = page_of(items(*(staying | around)), PageQuery(limit=limit, after=after))
        found += page
        if after is None:
            break

    assert sorted(found) == found
    assert len(set(found)) == len(found)
    assert {name.upper() for name in staying} <= set(found)


async def test_a_cursor_that_is_not_one_is_the_callers_fault() -> None:
    async def page() -> None:
        raise InvalidField("no cursor", param="cursor")

    with pytest.raises(InvalidField) as caught:
        await of_cursor(page())

    assert "after" == caught.value.param
