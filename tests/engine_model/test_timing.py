import pytest

from engine_model.timing import Timing


def test_decodes_slow_the_prefill() -> None:
    """10,000 tokens at 10,000 tokens/s take a second, and 0.4 % more per running decode."""
    assert 1.0 == Timing().compute_s(10_000, 0)
    assert 1.2 == pytest.approx(Timing().compute_s(10_000, 50))


def test_decodes_slow_each_other() -> None:
    """12 ms per token, and 0.4 ms more per other decode."""
    assert 0.012 == Timing().decode_s(0)
    assert 0.016 == pytest.approx(Timing().decode_s(10))


def test_a_faster_gpu_takes_less_time_for_everything() -> None:
    """Twice as fast, each time is half as long; running decodes slow it down by the same share."""
    timing = Timing().at_speed(2.0)

    assert 0.6 == pytest.approx(timing.compute_s(10_000, 50))
    assert 0.008 == pytest.approx(timing.decode_s(10))
    assert 0.005 == timing.prefill_fixed_s
    assert Timing() == Timing().at_speed(1.0)


@pytest.mark.parametrize("field", ["prefill_fixed_s", "prefill_slowdown", "tpot_s", "tpot_slope_s"])
def test_time_does_not_run_backwards(field: str) -> None:
    """A negative cost is refused by name."""
    with pytest.raises(ValueError, match=f"{field} must not be negative, got -1"):
        Timing(**{field: -1})


def test_a_rate_is_above_zero() -> None:
    """Nothing is ever prefilled at rate 0."""
    with pytest.raises(ValueError, match="prefill_tokens_per_s must be above 0"):
        Timing(prefill_tokens_per_s=0)
