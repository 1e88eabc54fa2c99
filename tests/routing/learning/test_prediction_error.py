import pytest

from routing.learning.prediction_error import PredictionError


def test_without_samples_there_is_no_error() -> None:
    error = PredictionError()

    assert (0.0, 0.0, False) == (error.absolute, error.bias, error.is_known)


def test_errors_are_shares_of_the_measured_time() -> None:
    """0.2 s too long and 0.2 s too short of 1 s: a fifth on average, in no direction."""
    error = PredictionError()
    for number in range(200):
        error.learn(predicted_s=1.2 if number % 2 else 0.8, measured_s=1.0)

    assert pytest.approx(0.2) == error.absolute
    assert pytest.approx(0.0, abs=0.01) == error.bias
    assert error.is_known


def test_the_bias_has_a_sign() -> None:
    """Twice as long as measured, and half as long."""
    long, short = PredictionError(), PredictionError()
    long.learn(predicted_s=2.0, measured_s=1.0)
    short.learn(predicted_s=0.5, measured_s=1.0)

    assert (1.0, 1.0) == (long.absolute, long.bias)
    assert (0.5, -0.5) == (short.absolute, short.bias)


def test_one_answer_does_not_decide() -> None:
    """A prediction that is a hundred times too long counts as five times too long, and fades."""
    error = PredictionError()
    error.learn(predicted_s=100.0, measured_s=1.0)

    assert 4.0 == error.absolute
    for _ in range(200):
        error.learn(predicted_s=1.0, measured_s=1.0)
    assert error.absolute < 0.01
