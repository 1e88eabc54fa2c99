"""Trace context in headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.tracing.context import Context, context_in, traceparent

GOOD = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE_ID, SPAN_ID = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7


def read(value: bytes, state: str | None = None) -> Context | None:
    fields = {b"traceparent": value} | ({} if state is None else {b"tracestate": b"the first of them"})
    return context_in(fields, lambda _: state)


def test_the_example_of_the_specification_is_read() -> None:
    assert Context(TRACE_ID, SPAN_ID, is_sampled=True) == read(GOOD)
    assert Context(TRACE_ID, SPAN_ID, is_sampled=False) == read(GOOD[:-2] + b"00")


@given(trace_id=st.integers(1, 2**128 - 1), span_id=st.integers(1, 2**64 - 1), is_sampled=st.booleans())
def test_written_headers_can_be_read(trace_id: int, span_id: int, is_sampled: bool) -> None:
    """For all ids."""
    assert Context(trace_id, span_id, is_sampled) == read(traceparent(trace_id, span_id, is_sampled=is_sampled))


@given(value=st.binary(max_size=60))
def test_every_header_is_read_or_ignored(value: bytes) -> None:
    """No header raises an error."""
    assert read(value) is None or value.startswith((b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9", b" "))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01",
        b"00-4bf92f3577b34da6a3ce929d0e0e4736-" + b"0" * 16 + b"-01",
        b"ff" + GOOD[2:],
        GOOD + b"-more",
        GOOD.upper(),
        GOOD[:-1],
    ],
)
def test_malformed_headers_are_ignored(value: bytes) -> None:
    """Zero ids, version ff, more fields than version 00 has, capitals, too short."""
    assert read(value) is None


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    """Further flags have no meaning yet."""
    assert Context(TRACE_ID, SPAN_ID, is_sampled=True) == read(b"cc" + GOOD[2:-2] + b"03-what-comes")


def test_no_header_is_no_context() -> None:
    assert context_in({b"tracestate": b"a=1"}, lambda _: "a=1") is None


def test_the_state_is_bounded() -> None:
    """All its headers are joined; a longer one is left out."""
    assert Context(TRACE_ID, SPAN_ID, True, b"a=1,b=2") == read(GOOD, "a=1,b=2")
    assert Context(TRACE_ID, SPAN_ID, True, b"") == read(GOOD, "a=" + "x" * 511)
