"""What is known of one request on its way."""

from tests.gateway.examples import an_exchange


def test_a_stream_begins_once() -> None:
    """Another worker that goes on with it begins nothing."""
    exchange = an_exchange()
    exchange.began(101.0)
    exchange.began(105.0)

    assert 101.0 == exchange.first_byte
