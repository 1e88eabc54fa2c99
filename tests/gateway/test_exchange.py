"""What is known of one request on its way."""

from tests.gateway.examples import an_exchange
from tests.gateway.tracing.examples import a_trace


def test_a_stream_begins_once() -> None:
    """Another worker that goes on with it begins nothing."""
    exchange = an_exchange()
    exchange.began(101.0)
    exchange.began(105.0)

    assert 101.0 == exchange.first_byte


def test_its_phases_are_those_of_its_trace() -> None:
    """Without one they are nobody's."""
    exchange = an_exchange()
    exchange.enter("parse")
    exchange.trace = a_trace()
    exchange.enter("reserve")
    exchange.enter(None)

    assert [("reserve", 100.0)] == [(span.name, span.ended) for span in exchange.trace.spans]
