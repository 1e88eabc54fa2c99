from gateway.telemetry.caches.use_times import UseTimes


def test_the_time_of_a_use_is_that_of_the_next_entry() -> None:
    times = UseTimes()
    for uses, at in ((0, 100.0), (10, 110.0), (30, 120.0)):
        times.note(uses, at)

    assert [30.0, 20.0, 20.0, 10.0, 10.0] == [times.age_s(use, 130.0) for use in (0, 1, 10, 11, 99)]


def test_entries_are_at_least_two_seconds_apart() -> None:
    times = UseTimes()
    for uses, at in ((0, 100.0), (10, 101.0), (30, 102.0)):
        times.note(uses, at)

    assert 8.0 == times.age_s(5, 110.0)


def test_uses_of_more_than_an_hour_ago_are_unknown() -> None:
    times = UseTimes()
    for step in range(2000):
        times.note(step, step * 2.0)

    assert None is times.age_s(199, 4000.0)
    assert 3600.0 == times.age_s(200, 4000.0)


def test_the_last_uses_took_the_time_between_two_entries() -> None:
    """An idle time since the last use does not count."""
    times = UseTimes()
    for uses, at in ((0, 100.0), (10, 110.0), (30, 120.0)):
        times.note(uses, at)

    assert [0.0, 10.0, 20.0, 20.0] == [times.span_s(uses) for uses in (0, 20, 30, 99)]
    assert None is UseTimes().span_s(1)


def test_without_entries_no_age_is_known() -> None:
    assert None is UseTimes().age_s(1, 100.0)
