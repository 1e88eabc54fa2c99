"""The facts about one request."""

from tests.gateway.examples import an_exchange
from tests.gateway.telemetry.trace_export.examples import a_trace


def test_the_first_byte_comes_once() -> None:
    """Another worker that takes the stream over does not change its time."""
    exchange = an_exchange()
    exchange.began(101.0)
    exchange.began(105.0)

    assert 101.0 == exchange.first_byte


def test_phases_are_recorded_in_the_trace() -> None:
    """A request without a trace records none."""
    exchange = an_exchange()
    exchange.enter("parse")
    exchange.trace = a_trace()
    exchange.enter("reserve")
    exchange.enter(None)

    assert [("reserve", 100.0)] == [(span.name, span.ended) for span in exchange.trace.spans]
