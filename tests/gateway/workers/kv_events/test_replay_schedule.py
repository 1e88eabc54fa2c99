"""When replays begin, and when they are given up."""

from gateway.workers.kv_events.replay_schedule import ReplayRequest, ReplaySchedule, ReplayTimeouts

TIMEOUTS = ReplayTimeouts(answer_s=2.0, retry_s=1.0, settle_s=1.0, check_s=30.0, rebuild_s=60.0)


def test_a_replay_starts_at_the_last_batch() -> None:
    """Without any, and for a rebuild, it starts at the beginning of the ring."""
    schedule = ReplaySchedule(TIMEOUTS)
    started = []
    for last, wants_rebuild in ((None, False), (-1, False), (7, False), (7, True)):
        schedule.wants_rebuild = wants_rebuild
        schedule.start(last, 0.0)
        assert schedule.running is not None
        started.append(schedule.running.request)

    assert [ReplayRequest(1, 0), ReplayRequest(2, 0), ReplayRequest(3, 7), ReplayRequest(4, 0)] == started


def test_an_answer_to_a_former_request_has_no_replay() -> None:
    """Only the number of the running one is known."""
    schedule = ReplaySchedule(TIMEOUTS)
    schedule.start(None, 0.0)
    schedule.start(None, 0.0)

    assert schedule.running_as(1) is None
    assert schedule.running is schedule.running_as(2)


def test_a_silent_replay_times_out() -> None:
    """It counts from the last answer."""
    schedule = ReplaySchedule(TIMEOUTS)
    schedule.start(None, 0.0)
    assert schedule.running is not None
    schedule.running.heard_at = 1.0

    assert schedule.due(3.0) is None
    assert "timeout" == schedule.due(3.1)


def test_silence_is_checked_after_a_while() -> None:
    """A connection is checked soon, and a message postpones the next check."""
    schedule = ReplaySchedule(TIMEOUTS)
    schedule.connected(0.0)

    assert [None, "check", None] == [schedule.due(now) for now in (0.9, 1.0, 30.9)]
    schedule.heard(20.0)
    assert [None, "check"] == [schedule.due(now) for now in (49.9, 50.0)]
    schedule.check_soon(60.0)
    assert "check" == schedule.due(60.0)


def test_broken_replays_are_repeated_until_they_were_too_many() -> None:
    """Each waits longer; a replay with progress is repeated at once and starts the count over."""
    schedule = ReplaySchedule(TIMEOUTS)

    assert schedule.retries(0.0, had_progress=False)
    assert [None, "retry"] == [schedule.due(now) for now in (0.9, 1.0)]
    assert schedule.retries(1.0, had_progress=True)
    assert schedule.retries(2.0, had_progress=False)
    assert schedule.retries(3.0, had_progress=False)
    assert [None, "retry"] == [schedule.due(now) for now in (4.9, 5.0)]
    assert not schedule.retries(5.0, had_progress=False)


def test_a_rebuild_is_planned_later_each_time() -> None:
    """Until replays work again."""
    schedule = ReplaySchedule(TIMEOUTS)
    schedule.check_soon(1e9)

    schedule.back_off(0.0)
    assert [None, "rebuild", None] == [schedule.due(now) for now in (59.0, 60.0, 61.0)]
    schedule.back_off(100.0)
    assert [None, "rebuild"] == [schedule.due(now) for now in (219.0, 220.0)]
    schedule.rebuilt()
    schedule.back_off(300.0)
    assert "rebuild" == schedule.due(360.0)
    schedule.back_off(400.0)
    schedule.cancel_rebuild()
    assert schedule.due(10_000.0) is None


def test_missing_batches_are_given_up_after_two_replays_in_a_row_without_them() -> None:
    """Progress, or having caught up, starts the count over."""
    schedule = ReplaySchedule(TIMEOUTS)

    outcomes = [schedule.is_fruitless(had_progress=progress) for progress in (False, True, False, False, False)]
    schedule.caught_up()

    assert [False, False, False, True, False] == outcomes
    assert not schedule.is_fruitless(had_progress=False)


def test_an_abandoned_replay_is_not_repeated() -> None:
    """Nothing is running or due."""
    schedule = ReplaySchedule(TIMEOUTS)
    schedule.check_soon(1e9)
    schedule.start(None, 0.0)
    schedule.ended()
    schedule.retries(0.0, had_progress=False)
    assert schedule.is_catching_up

    schedule.abandon()

    assert [False, False] == [schedule.is_retrying, schedule.running is not None]
    assert schedule.due(100.0) is None
