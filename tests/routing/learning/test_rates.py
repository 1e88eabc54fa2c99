import pytest

from routing.learning.rates import Gap, Rates, RelativePace


def test_before_any_sample_the_lines_are_the_priors() -> None:
    """10 ms and 2,000 tokens per second; 20 ms per output token and half a millisecond for each neighbor."""
    rates = Rates(prefill_tokens_per_s=2000.0)

    assert pytest.approx(0.51) == rates.prefill_s(1000.0)
    assert pytest.approx(0.025) == rates.decode.predict(10.0)


def test_a_worker_is_as_fast_as_the_fleet_until_it_has_shown_otherwise() -> None:
    """One request that took twice as long does not make a slow worker."""
    pace = RelativePace()
    pace.learn(measured_s=0.2, fleet_s=0.1)

    assert 1.0 == pace.factor


def test_noise_leaves_equal_workers_equal() -> None:
    """Ten per cent more or less is exactly 1, so that ties stay ties."""
    pace = RelativePace()
    for i in range(100):
        pace.learn(measured_s=0.9 if i % 2 else 1.1, fleet_s=1.0)

    assert 1.0 == pace.factor


@pytest.mark.parametrize("times", [0.5, 2.0, 5.0])
def test_a_worker_of_another_kind_is_known_for_it(times: float) -> None:
    """Half, twice or five times as long as the fleet's line."""
    pace = RelativePace()
    for _ in range(100):
        pace.learn(measured_s=0.3 * times, fleet_s=0.3)

    assert pytest.approx(times, rel=0.02) == pace.factor


def test_recent_requests_count_most() -> None:
    """A worker that was slow and is well again is believed after some requests."""
    pace = RelativePace()
    for times in (5.0, 1.0):
        for _ in range(100):
            pace.learn(measured_s=0.3 * times, fleet_s=0.3)

    assert 1.0 == pace.factor


def test_prompts_of_one_length_are_predicted_well_long_before_the_slope_is_known() -> None:
    """Ten prompts of 1,000 tokens that take 110 ms instead of 510: the eleventh is expected within a fifth."""
    rates = Rates(prefill_tokens_per_s=2000.0)
    for _ in range(10):
        rates.learn_prefill(1000.0, 0.11)

    assert pytest.approx(0.11, rel=0.2) == rates.prefill_s(1000.0)


def test_what_is_believed_at_first_is_not_learned() -> None:
    """One measured prefill is enough to say so."""
    rates = Rates(prefill_tokens_per_s=2000.0)
    assert not rates.are_learned
    rates.learn_prefill(1000.0, 0.11)

    assert rates.are_learned


def test_a_gap_is_unknown_until_one_was_measured() -> None:
    """Then it is time over tokens."""
    gap = Gap()
    assert gap.usual_s is None
    gap.learn(2.0, 100)

    assert 0.02 == gap.usual_s


def test_long_streams_say_more_of_a_gap_than_short_ones() -> None:
    """One that paused for three seconds before its second token does not make all gaps long."""
    gap = Gap()
    gap.learn(20.0, 1000)
    gap.learn(3.0, 1)

    assert pytest.approx(0.023, abs=0.001) == gap.usual_s


def test_gaps_follow_what_was_measured_last() -> None:
    """A hundred streams later nothing is left of what was before."""
    gap = Gap()
    gap.learn(20.0, 1000)
    for _ in range(100):
        gap.learn(2.0, 50)

    assert pytest.approx(0.04, rel=0.01) == gap.usual_s
