import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.errors import InvalidField
from gateway.tenancy.ledger.cursor import Ordinal, cursor_of, place_of


@given(st.text(), st.integers(0, 2**63 - 1))
def test_a_place_comes_back_from_its_cursor(name: str, number: int) -> None:
    """A URL needs no escapes for it."""
    cursor = cursor_of(name, number)

    assert (name, number) == place_of(cursor, tuple[str, Ordinal])
    assert re.fullmatch(r"[A-Za-z0-9_-]+", cursor)


@given(st.text())
def test_any_other_text_is_refused_or_a_place(text: str) -> None:
    """Whatever a caller sends is no fault of ours."""
    try:
        name, number = place_of(text, tuple[str, Ordinal])
    except InvalidField as refused:
        param = refused.param
    else:
        assert isinstance(name, str)
        assert 0 <= number < 2**63
        return
    assert "cursor" == param


@pytest.mark.parametrize("place", [("a",), ("a", -1), ("a", 2**63), ("a", 1, 2), (1, 1)])
def test_a_cursor_of_another_list_is_refused(place: tuple[str | int, ...]) -> None:
    with pytest.raises(InvalidField):
        place_of(cursor_of(*place), tuple[str, Ordinal])
