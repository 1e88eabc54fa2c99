import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.fallbacks.bucket import Bucket


def granted(bucket: Bucket, units: float, now: float, share: float = 1.0) -> bool:
    bucket.turn(share, now)
    if bucket.wait_s(units) != 0.0:
        return False
    bucket.grant(units)
    return True


def test_a_sixth_of_a_minute_passes_at_once_and_the_rest_in_the_course_of_it() -> None:
    bucket = Bucket(600.0)

    assert [True] * 100 + [False] == [granted(bucket, 1.0, 0.0) for _ in range(101)]
    assert [True] * 5 == [granted(bucket, 100.0, minute * 12.0) for minute in range(1, 6)]
    assert not granted(bucket, 1.0, 60.0)


def test_it_reports_how_long_to_wait() -> None:
    bucket = Bucket(600.0)
    assert granted(bucket, 100.0, 0.0)
    bucket.turn(1.0, 0.0)

    assert 1.2 == pytest.approx(bucket.wait_s(10.0))
    assert bucket.wait_s(601.0) is None


def test_a_share_of_the_rate_is_a_share_of_all_of_it() -> None:
    bucket = Bucket(600.0)

    assert granted(bucket, 10.0, 0.0, share=0.1)
    assert not granted(bucket, 1.0, 0.0, share=0.1)
    assert granted(bucket, 5.0, 6.0, share=0.1)


def test_a_share_that_grows_brings_nothing_at_once() -> None:
    bucket = Bucket(600.0)
    assert granted(bucket, 10.0, 0.0, share=0.1)

    assert not granted(bucket, 1.0, 0.0, share=1.0)


def test_time_that_passed_at_a_small_share_refills_at_that() -> None:
    """The share that counts at its end was not there all the time."""
    bucket = Bucket(600.0)
    assert granted(bucket, 10.0, 0.0, share=0.1)

    assert granted(bucket, 50.0, 60.0, share=1.0)
    assert not granted(bucket, 1.0, 60.0, share=1.0)


def test_one_that_is_larger_than_the_burst_passes_a_full_bucket_and_leaves_a_debt() -> None:
    bucket = Bucket(600.0)

    assert granted(bucket, 300.0, 0.0)
    assert not granted(bucket, 1.0, 24.0)
    assert granted(bucket, 1.0, 25.0)
    assert not granted(bucket, 300.0, 30.0)


def test_a_least_burst_passes_however_small_the_rate_is() -> None:
    bucket = Bucket(2.0, least_burst=1.0)

    assert granted(bucket, 1.0, 0.0, share=0.1)
    assert not granted(bucket, 1.0, 10.0, share=0.1)


def test_what_is_given_back_can_be_granted_again() -> None:
    bucket = Bucket(600.0)
    assert granted(bucket, 100.0, 0.0)
    bucket.give_back(60.0)
    assert granted(bucket, 60.0, 0.0)
    bucket.give_back(1000.0)

    assert granted(bucket, 100.0, 0.0)
    assert not granted(bucket, 1.0, 0.0)


def test_another_amount_counts_from_then_on() -> None:
    bucket = Bucket(600.0)
    assert granted(bucket, 1.0, 0.0)
    bucket.set_amount(60.0)

    assert [True] * 10 + [False] == [granted(bucket, 1.0, 0.0) for _ in range(11)]


STEPS = st.lists(st.tuples(st.floats(0, 30), st.floats(0.1, 1.0), st.integers(1, 100)), max_size=60)


@given(STEPS)
def test_no_minute_has_more_than_the_amount(steps: list[tuple[float, float, int]]) -> None:
    bucket, now, passed = Bucket(600.0), 0.0, []
    for pause_s, share, units in steps:
        now += pause_s
        while granted(bucket, float(units), now, share):
            passed.append((now, units))

    for begins, _ in passed:
        assert sum(units for at, units in passed if begins <= at < begins + 60.0) <= 600.0 + 1e-3


@given(STEPS, st.integers(1, 40))
def test_of_few_requests_a_minute_no_minute_has_more(steps: list[tuple[float, float, int]], amount: int) -> None:
    bucket, now, passed = Bucket(float(amount), least_burst=1.0), 0.0, []
    for pause_s, share, _ in steps:
        now += pause_s
        while granted(bucket, 1.0, now, share):
            passed.append(now)

    for begins in passed:
        assert sum(begins <= at < begins + 60.0 for at in passed) <= amount


@given(STEPS)
def test_who_waits_as_long_as_reported_is_let_in(steps: list[tuple[float, float, int]]) -> None:
    bucket, now = Bucket(600.0), 0.0
    for pause_s, share, units in steps:
        now += pause_s
        bucket.turn(share, now)
        wait_s = bucket.wait_s(float(units))
        assert wait_s is not None
        now += wait_s * (1.0 + 1e-9) + 1e-6
        assert granted(bucket, float(units), now, share)
