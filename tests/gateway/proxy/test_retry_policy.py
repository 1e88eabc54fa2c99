"""The retry policy."""

from gateway.proxy.retry_policy import RetryPolicy


def test_a_request_waits_for_at_most_half_of_the_deadline() -> None:
    """The answer takes time as well."""
    retry_policy = RetryPolicy(wait_s=60.0)

    assert [60.0, 60.0, 15.0] == [retry_policy.max_wait_s(deadline_s) for deadline_s in (None, 600.0, 30.0)]


def test_the_wait_for_a_first_byte_follows_from_the_prediction() -> None:
    assert 6.5 == RetryPolicy(first_byte_factor=3.0, first_byte_margin_s=5.0).first_byte_s(0.5)


def test_a_stream_may_pause_for_some_of_its_gaps() -> None:
    """It may pause for a second at least, and without limit if its rate is unknown."""
    retry_policy = RetryPolicy(stall_gaps=20.0, stall_s=1.0)

    assert 2.0 == retry_policy.max_pause_s(0.1)
    assert 1.0 == retry_policy.max_pause_s(0.01)
    assert retry_policy.max_pause_s(None) is None
