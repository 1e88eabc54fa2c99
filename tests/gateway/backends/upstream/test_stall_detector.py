"""Decision whether a stream that pauses has stalled."""

import math

from gateway.backends.upstream.engine_progress import EngineProgress
from gateway.backends.upstream.stall_detector import LONGEST_PAUSE, OTHERS_ARRIVALS, StallDetector


def a_pause(*, idle_s: float = 1.0) -> StallDetector:
    """A detector whose stream pauses since time 0, with *idle_s* allowed of 100 s."""
    detector = StallDetector()
    detector.expect(100.0)
    detector.idle_s = idle_s
    return detector


def test_the_limit_of_the_worker_needs_no_evidence() -> None:
    detector = a_pause(idle_s=100.0)
    detector.compare(0, 3, 0, waits=True)

    assert detector.has_stalled(100.0)


def test_a_stream_stalls_when_the_others_go_on() -> None:
    detector = a_pause()
    detector.compare(0, 2, int(OTHERS_ARRIVALS), waits=True)
    assert not detector.has_stalled(1.0)
    detector.compare(0, 2, int(OTHERS_ARRIVALS), waits=True)

    assert detector.has_stalled(1.0)


def test_a_stream_that_pauses_with_all_others_is_given_more_time() -> None:
    detector = a_pause()
    detector.compare(0, 2, 0, waits=True)

    assert [False, True] == [detector.has_stalled(at) for at in (LONGEST_PAUSE - 0.1, LONGEST_PAUSE)]


def test_a_stream_that_is_alone_stalls_unless_the_engine_generates() -> None:
    asked: list[None] = []
    engine = EngineProgress(lambda: asked.append(None))
    engine.note(5.0, asked_at=-1.0, read_at=-0.9)
    working, idle = a_pause(), a_pause()
    working.inquire(engine, 0.5)
    engine.note(5.0, asked_at=0.5, read_at=0.6)
    engine.note(6.0, asked_at=0.7, read_at=0.8)
    working.inquire(engine, 0.9)

    assert asked
    assert [False, True] == [working.has_stalled(1.0), idle.has_stalled(1.0)]


def test_arrivals_are_counted_once() -> None:
    detector = a_pause()
    detector.arrivals += 2

    assert [2, 0] == [detector.take_arrivals(), detector.take_arrivals()]


def test_a_detector_without_a_stream_expects_nothing() -> None:
    assert math.inf == StallDetector().idle_s
    assert not StallDetector().is_stricter()
