import pytest

from gateway.backends.fallbacks.allowance import Allowance, RateLimits


def let_in(allowance: Allowance, tokens: float, now: float) -> bool:
    if allowance.wait_s(tokens, now) != 0.0:
        return False
    allowance.reserve(tokens, now)
    return True


def test_without_limits_everything_passes() -> None:
    allowance = Allowance(RateLimits(ramp_s=60.0))

    assert all(let_in(allowance, 1e9, 0.0) for _ in range(1000))
    assert 1.0 == allowance.share(0.0)


def test_requests_and_tokens_both_need_room() -> None:
    requests = Allowance(RateLimits(requests_per_minute=12))
    tokens = Allowance(RateLimits(tokens_per_minute=600))

    assert [True, True, False] == [let_in(requests, 1e6, 0.0) for _ in range(3)]
    assert [True, True, False] == [let_in(tokens, 50.0, 0.0) for _ in range(3)]


def test_it_reports_the_longer_of_two_waits() -> None:
    allowance = Allowance(RateLimits(requests_per_minute=6, tokens_per_minute=600))
    assert let_in(allowance, 10.0, 0.0)

    assert 12.0 == pytest.approx(allowance.wait_s(10.0, 0.0))
    assert allowance.wait_s(601.0, 0.0) is None


def test_what_was_not_used_can_be_used() -> None:
    """The answer was shorter than it might have been; that it was a request stays."""
    allowance = Allowance(RateLimits(requests_per_minute=12, tokens_per_minute=600))
    assert let_in(allowance, 100.0, 0.0)
    assert not let_in(allowance, 50.0, 0.0)
    allowance.settle(100.0, 40.0, 0.0)

    assert let_in(allowance, 50.0, 0.0)
    assert not let_in(allowance, 0.0, 0.0)


def test_what_was_used_beyond_is_paid_for() -> None:
    allowance = Allowance(RateLimits(tokens_per_minute=600))
    assert let_in(allowance, 10.0, 0.0)
    allowance.settle(10.0, 110.0, 0.0)

    assert not let_in(allowance, 1.0, 0.0)


def test_after_a_pause_it_begins_at_a_tenth() -> None:
    allowance = Allowance(RateLimits(requests_per_minute=600, ramp_s=60.0))

    assert 10 == sum(let_in(allowance, 1.0, 0.0) for _ in range(500))
    assert 0.1 == pytest.approx(allowance.share(0.0))
    assert 0.2 == pytest.approx(allowance.share(60.0))


def test_who_is_refused_counts_as_use() -> None:
    """Otherwise a small rate would never get beyond its beginning."""
    allowance = Allowance(RateLimits(requests_per_minute=1, ramp_s=60.0))
    for second in range(300):
        let_in(allowance, 1.0, float(second))

    assert 1.0 == allowance.share(300.0)


def test_changed_limits_do_not_forget_what_was_used() -> None:
    allowance = Allowance(RateLimits(requests_per_minute=60))
    assert 10 == sum(let_in(allowance, 1.0, 0.0) for _ in range(20))
    allowance.set_rates(RateLimits(requests_per_minute=120))
    assert not let_in(allowance, 1.0, 0.0)

    allowance.set_rates(RateLimits())
    assert let_in(allowance, 1.0, 0.0)


def test_times_that_go_back_bring_nothing() -> None:
    allowance = Allowance(RateLimits(requests_per_minute=60))
    assert 10 == sum(let_in(allowance, 1.0, 100.0) for _ in range(20))

    assert not let_in(allowance, 1.0, 50.0)
    assert not let_in(allowance, 1.0, 100.0)


def test_the_lowest_of_several_limits() -> None:
    assert RateLimits(5, 100, 90.0) == RateLimits.lowest(
        [RateLimits(5, None, 60.0), RateLimits(10, 100, 90.0), RateLimits()]
    )
    assert RateLimits() == RateLimits.lowest([])
