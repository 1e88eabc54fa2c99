from gateway.backends.fallbacks.breaker import FallbackBreaker
from gateway.backends.fallbacks.failure_class import FailureClass

SHUT, SPENT = FailureClass("shut"), FailureClass("spent for today")
THROTTLED, FAILED = FailureClass("throttled"), FailureClass("failed")


def fail(breaker: FallbackBreaker, failure: FailureClass, now: float) -> float:
    """One request that fails at once; for how long the others have to wait."""
    breaker.failed(failure, breaker.sent(now), now)
    return breaker.wait_s(now)


def test_a_refused_key_shuts_it_at_once_and_for_long() -> None:
    breaker = FallbackBreaker()

    assert 0.0 == breaker.wait_s(0.0)
    assert 600.0 == fail(breaker, SHUT, 0.0)
    assert breaker.is_open


def test_a_day_that_is_used_up_shuts_it_for_hours() -> None:
    assert 7200.0 == fail(FallbackBreaker(), SPENT, 0.0)


def test_throttling_shuts_it_for_moments_and_longer_each_time() -> None:
    breaker, now, waits = FallbackBreaker(), 0.0, []
    for _ in range(7):
        waits.append(fail(breaker, THROTTLED, now))
        now += waits[-1]

    assert [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] == waits


def test_it_waits_as_long_as_it_is_reported() -> None:
    """Within reason."""
    assert 20.0 == fail(FallbackBreaker(), FailureClass("throttled", 20.0), 0.0)
    assert 300.0 == fail(FallbackBreaker(), FailureClass("throttled", 1e9), 0.0)


def test_other_failures_shut_it_when_there_are_three_in_a_row() -> None:
    breaker = FallbackBreaker()

    assert [0.0, 0.0, 15.0] == [fail(breaker, FAILED, 0.0) for _ in range(3)]
    assert 30.0 == fail(breaker, FAILED, 15.0)


def test_an_answer_between_them_begins_the_row_again() -> None:
    breaker = FallbackBreaker()
    for _ in range(5):
        assert [0.0, 0.0] == [fail(breaker, FAILED, 0.0) for _ in range(2)]
        breaker.answered(breaker.sent(0.0))


def test_an_answer_that_only_began_does_not() -> None:
    """Streams that all break off in the middle are no sign of health."""
    breaker = FallbackBreaker()
    for _ in range(3):
        life = breaker.sent(0.0)
        breaker.began(life)
        breaker.failed(FAILED, life, 0.0)

    assert 15.0 == breaker.wait_s(0.0)


def test_after_its_time_one_is_let_through_on_trial() -> None:
    breaker = FallbackBreaker()
    fail(breaker, SHUT, 0.0)
    assert 0.0 == breaker.wait_s(600.0)
    life = breaker.sent(600.0)

    assert 30.0 == breaker.wait_s(600.0)
    breaker.began(life)
    assert (0.0, False) == (breaker.wait_s(601.0), breaker.is_open)


def test_a_trial_that_fails_shuts_it_again() -> None:
    breaker = FallbackBreaker()
    fail(breaker, SHUT, 0.0)

    assert 600.0 == fail(breaker, SHUT, 600.0)


def test_a_trial_that_comes_to_nothing_lets_another_try() -> None:
    """At once if it says so, else after half a minute."""
    breaker = FallbackBreaker()
    fail(breaker, SHUT, 0.0)
    breaker.released(breaker.sent(600.0))
    assert 0.0 == breaker.wait_s(600.0)

    breaker.sent(600.0)
    assert 0.0 == breaker.wait_s(630.0)


def test_many_that_fail_together_count_once() -> None:
    """500 requests that are throttled at the same time do not shut it for a minute."""
    breaker = FallbackBreaker()
    lives = [breaker.sent(0.0) for _ in range(500)]
    for life in lives:
        breaker.failed(THROTTLED, life, 0.0)

    assert 2.0 == breaker.wait_s(0.0)


def test_of_those_that_were_on_their_way_only_worse_news_count() -> None:
    breaker = FallbackBreaker()
    early = breaker.sent(0.0)
    fail(breaker, THROTTLED, 0.0)
    breaker.answered(early)
    breaker.released(early)
    breaker.began(early)
    assert 2.0 == breaker.wait_s(0.0)

    breaker.failed(SPENT, early, 1.0)
    assert 7200.0 == breaker.wait_s(1.0)
    breaker.failed(SHUT, early, 1.0)
    assert 7200.0 == breaker.wait_s(1.0)


def test_it_can_begin_again() -> None:
    """A caller that had been sent before does not count any more."""
    breaker = FallbackBreaker()
    early = breaker.sent(0.0)
    fail(breaker, SHUT, 0.0)
    breaker.forget()
    breaker.failed(THROTTLED, early, 0.0)

    assert (0.0, False) == (breaker.wait_s(0.0), breaker.is_open)
