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


def test_at_most_sixteen_failures_are_kept() -> None:
    """A request without a receipt keeps none."""
    kept, plain = an_exchange(keeps_decision=True), an_exchange()
    for number in range(20):
        kept.note_failure(f"w{number}", "ConnectFailed")
        plain.note_failure(f"w{number}", "ConnectFailed")

    assert 16 == len(kept.failures)
    assert ("w15", "ConnectFailed") == kept.failures[-1]
    assert () == plain.failures
