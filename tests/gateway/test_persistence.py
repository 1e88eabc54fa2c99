"""How hard a request is tried."""

from gateway.persistence import Persistence


def test_a_request_waits_for_half_of_its_callers_time_at_most() -> None:
    """Whoever answers then needs time as well."""
    persistence = Persistence(wait_s=60.0)

    assert [60.0, 60.0, 15.0] == [persistence.wait_at_most_s(deadline_s) for deadline_s in (None, 600.0, 30.0)]


def test_the_wait_for_a_first_byte_follows_from_the_prediction() -> None:
    assert 6.5 == Persistence(first_byte_factor=3.0, first_byte_margin_s=5.0).first_byte_s(0.5)


def test_a_stream_may_pause_for_some_of_its_gaps() -> None:
    """But for a second in any case, and for as long as it likes where nothing is known."""
    persistence = Persistence(stall_gaps=20.0, stall_s=1.0)

    assert 2.0 == persistence.pause_s(0.1)
    assert 1.0 == persistence.pause_s(0.01)
    assert persistence.pause_s(None) is None
