import pytest

from gateway.api.openai_lists import answer, order_of, page_object, page_size
from gateway.protocol.errors import InvalidField


def test_a_page_names_its_first_and_last_object() -> None:
    page = page_object([{"id": "a"}, {"id": "b"}], has_more=True)

    assert {
        "object": "list",
        "data": [{"id": "a"}, {"id": "b"}],
        "first_id": "a",
        "last_id": "b",
        "has_more": True,
    } == page
    assert (None, None) == (page_object([], has_more=False)["first_id"], page_object([], has_more=False)["last_id"])


def test_an_answer_is_json() -> None:
    response = answer({"id": "a"})

    assert (b'{"id":"a"}', "application/json") == (response.body, response.headers["content-type"])


def test_a_page_size_has_a_default_and_a_maximum() -> None:
    assert [20, 1, 100] == [page_size(text, default=20, most=100) for text in (None, "1", "100")]
    for text in ("0", "101", "-1", "x", "", "1" * 5000, "²"):
        with pytest.raises(InvalidField, match="must be a number from 1 to 100"):
            page_size(text, default=20, most=100)


def test_an_order_is_descending_by_default() -> None:
    assert ["desc", "desc", "asc"] == [order_of(text) for text in (None, "desc", "asc")]
    with pytest.raises(InvalidField):
        order_of("up")
