"""Minutes of workers with literal sums."""

import pytest

from gateway.telemetry.caches.hit_history import MINUTES, HitHistory, StreamChange
from tests.fakes.intake import some_counters
from tests.routing.examples import A, B

TINY_A = ("tiny", A)


def test_a_minute_has_the_sums_of_its_requests() -> None:
    history = HitHistory()
    history.current("tiny", A).add(prompt=100, predicted=80, reported=64, recomputed=0)
    history.current("tiny", A).add(prompt=200, predicted=0, reported=32, recomputed=48)
    history.end_minute(60.0, [TINY_A], {})
    (minute,) = history.minutes("tiny", A)

    assert (60.0, 2, 300, 80, 96) == (
        minute.ended_at,
        minute.hits.requests,
        minute.hits.prompt,
        minute.hits.predicted,
        minute.hits.reported,
    )
    assert 64 / (80 + 32) == pytest.approx(minute.hits.accuracy)
    assert 96 / 300 == pytest.approx(minute.hits.reuse_share)
    assert 48 / 204 == pytest.approx(minute.hits.thrash_share)
    assert 0 == history.peek("tiny", A).requests


def test_without_requests_no_share_is_known() -> None:
    hits = HitHistory().peek("tiny", A)

    assert (None, None, None) == (hits.accuracy, hits.reuse_share, hits.thrash_share)


def test_recent_sums_are_those_of_ten_minutes_and_the_current_one() -> None:
    history = HitHistory()
    for minute in range(12):
        history.current("tiny", A).add(prompt=10, predicted=0, reported=0, recomputed=0)
        history.end_minute(minute * 60.0, [TINY_A], {})
    history.current("tiny", A).add(prompt=10, predicted=0, reported=0, recomputed=0)

    assert 110 == history.recent("tiny", A).prompt


def test_an_hour_is_kept() -> None:
    history = HitHistory()
    for minute in range(100):
        history.end_minute(minute * 60.0, [TINY_A], {})

    assert [minute * 60.0 for minute in range(100 - MINUTES, 100)] == [
        each.ended_at for each in history.minutes("tiny", A)
    ]


def test_workers_that_left_are_forgotten() -> None:
    history = HitHistory()
    history.current("tiny", B).add(prompt=10, predicted=0, reported=0, recomputed=0)
    history.end_minute(60.0, [TINY_A], {})

    assert [] == history.minutes("tiny", B)
    assert 0 == history.recent("tiny", B).prompt


def test_what_happened_to_a_stream_counts_in_its_minute() -> None:
    """Counters of a stream never decrease; a new subscription starts at zero."""
    history = HitHistory()
    readings = (
        some_counters(trust="live", gaps=2, lost_batches=5, lag_s=0.25),
        some_counters(trust="stale", gaps=3, lost_batches=5, restarts=1, rebuilds=1),
        some_counters(trust="live", gaps=1),
    )
    for number, counters in enumerate(readings):
        history.end_minute(number * 60.0, [TINY_A], {A: counters})
    history.end_minute(180.0, [TINY_A], {})

    assert [
        StreamChange("live", 0.25, gaps=2, lost_batches=5),
        StreamChange("stale", None, gaps=1, restarts=1, rebuilds=1),
        StreamChange("live", None, gaps=1),
        StreamChange(),
    ] == [each.stream for each in history.minutes("tiny", A)]
