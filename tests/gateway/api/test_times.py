"""Times as answers have them."""

from gateway.api.times import rfc3339, to_the_millisecond


def test_whole_seconds_have_no_fraction() -> None:
    assert "2026-11-21T08:00:00Z" == rfc3339(1_795_248_000.0)
    assert "2026-11-21T08:00:00.250000Z" == rfc3339(1_795_248_000.25)


def test_times_of_logs_are_of_one_length() -> None:
    assert "2026-11-21T08:00:00.000Z" == to_the_millisecond(1_795_248_000.0)
    assert "2026-11-21T08:00:00.250Z" == to_the_millisecond(1_795_248_000.2504)
