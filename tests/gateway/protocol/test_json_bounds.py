"""Number and nesting of the values of a JSON text, before it is decoded."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.errors import MalformedBody
from gateway.protocol.json_bounds import (
    INLINE_BYTES,
    INLINE_MARKS,
    OFF_LOOP_BYTES,
    check_bounds,
    is_light,
    marks,
    may_be_tokenized,
    shape_of,
)

TEXTS = st.text(alphabet='ab"\\,[]{}: \n\u6f22', max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def counted(value: Any) -> tuple[int, int]:
    """Values and depth, found by walking; an empty list or object counts twice."""
    if not isinstance(value, dict | list):
        return 1, 0
    inner = [counted(each) for each in (value.values() if isinstance(value, dict) else value)]
    return 1 + (sum(values for values, _ in inner) or 1), 1 + max([depth for _, depth in inner], default=0)


@given(VALUES, st.booleans())
def test_the_shape_is_that_of_the_decoded_value(value: Any, is_ascii: bool) -> None:
    """Whatever strings contain is no structure; marks are never fewer than values."""
    raw = json.dumps([value], ensure_ascii=is_ascii).encode()
    shape = shape_of(raw)

    assert counted([value]) == (shape.values, shape.depth)
    assert marks(raw) + 1 >= shape.values


def test_the_shape_is_the_same_across_blocks() -> None:
    """A string, a list and the nesting go on from one block of the count to the next."""
    raw = json.dumps([["x," * 200_000, [1, 2]], {"a": ["y[" * 300_000, {}]}]).encode()

    assert counted(json.loads(raw)) == (shape_of(raw).values, shape_of(raw).depth)


def test_fields_are_those_of_the_outermost_object() -> None:
    assert shape_of(b'{"a":[1,2,{"b":1,"c":2}],"d":",,","e":{}}').fields == 3


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b'{"a":[' + b"1," * 100_000 + b"1]}", "more than 100000 values (server.max_body_values)"),
        (b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", "deeper than 256 levels"),
        (b"{" + b",".join(b'"k%d":[]' % number for number in range(300)) + b"}", "more than 256 fields"),
    ],
    ids=["values", "depth", "fields"],
)
def test_what_exceeds_a_bound_is_named(raw: bytes, fault: str) -> None:
    with pytest.raises(MalformedBody) as refusal:
        check_bounds(raw, max_values=100_000)

    assert fault in refusal.value.message


def test_text_is_no_structure() -> None:
    """A long text full of commas and brackets passes."""
    check_bounds(json.dumps({"a": ",[{" * 200_000}).encode(), max_values=1_000)


def test_a_body_is_light_by_size_and_by_shape() -> None:
    """Small ones always; up to 256 KiB those with few values; larger ones never."""
    assert is_light(b"," * INLINE_BYTES)
    assert not is_light(b"," * (INLINE_BYTES + 1))
    assert is_light(b"x" * OFF_LOOP_BYTES)
    assert not is_light(b"x" * (OFF_LOOP_BYTES + 1))


def test_a_long_text_with_commas_is_light() -> None:
    """Commas and brackets of texts are no values, also next to quotes and backslashes in the text."""
    text = 'He said, "no, [never]", and {left}\\\\", \\' * 4_000

    assert is_light(json.dumps({"messages": [{"role": "user", "content": text[:150_000]}]}).encode())


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":[' + b"1," * 2_100 + b'1],"b":"' + b"x" * 10_000 + b'"}',
        b'{"a":[' + b'"",' * 9_000 + b'""]}',
        b'{"a":"' + rb"\"," * 31_000 + b'"}',
        rb'{"a":"\\\\","b":[' + b"1," * 2_100 + b'1],"c":"' + b"x" * 10_000 + b'"}',
    ],
    ids=["numbers", "strings", "quotes", "numbers after backslashes"],
)
def test_many_values_are_not_light(raw: bytes) -> None:
    json.loads(raw)

    assert not is_light(raw)


@given(st.lists(VALUES, max_size=12), st.booleans())
def test_a_light_body_has_few_values(values: list[Any], is_ascii: bool) -> None:
    """Repeated values of any shape are light exactly if there are at most 2,000."""
    raw = json.dumps([values] * 250, ensure_ascii=is_ascii).encode()
    few_values = shape_of(raw).values <= INLINE_MARKS + 1
    quotes = raw.count(b'"')

    if len(raw) > INLINE_BYTES and (marks(raw) <= INLINE_MARKS or quotes <= 8_000):
        assert is_light(raw) == (few_values and len(raw) <= OFF_LOOP_BYTES)


def test_tokens_are_made_of_what_is_decoded_soon() -> None:
    """Up to a megabyte with 50,000 commas and brackets; a small body has no more."""
    assert may_be_tokenized(b"," * 60_000)
    assert may_be_tokenized(b"x" * 2**20)
    assert not may_be_tokenized(b"x" * (2**20 + 1))
    assert not may_be_tokenized(b"," * 100_000)
