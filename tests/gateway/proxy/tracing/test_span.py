"""A stretch of a request's life."""

from gateway.proxy.tracing.span import Span


def test_a_span_ends_once() -> None:
    span = Span(7, "queue", 100.0, parent_id=1)

    before = span.ended
    span.end(101.0)
    span.end(102.0)

    assert [None, 101.0] == [before, span.ended]
