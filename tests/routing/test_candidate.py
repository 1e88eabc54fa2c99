from tests.routing.examples import a_candidate


def test_requests_in_flight_wait_or_generate() -> None:
    """Two whose first token has not come and three that are generating are five."""
    assert 5 == a_candidate("a", pending=2, decodes=3).load.in_flight
