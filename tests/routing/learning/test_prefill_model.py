import random

import pytest

from routing.learning.prefill_model import PrefillModel


def engine_s(tokens: float, decodes: float, *, tokens_per_s: float) -> float:
    """An engine with a fixed time of 10 ms that each running request slows down by 0.4 %."""
    return 0.01 + tokens * (1.0 + 0.004 * decodes) / tokens_per_s


def test_before_any_sample_the_prior_predicts() -> None:
    """10 ms and 2,000 tokens per second, with and without running requests."""
    model = PrefillModel(tokens_per_s=2000.0)

    assert pytest.approx(0.51) == model.predict(1000.0)
    assert pytest.approx(0.51) == model.predict(1000.0, 20.0)
    assert pytest.approx((0.01, 0.0005, 0.0)) == (model.overhead_s, model.s_per_token, model.decode_s_per_token)


@pytest.mark.parametrize("tokens_per_s", [1_000.0, 10_000.0, 40_000.0])
def test_a_linear_engine_is_known_after_forty_prompts(tokens_per_s: float) -> None:
    """Prompts of 100 to 8,000 tokens beside 0 to 19 requests: every later prediction is right within 2 %."""
    rng = random.Random(1)
    model = PrefillModel(tokens_per_s=2000.0)
    for number in range(120):
        tokens, decodes = rng.randrange(100, 8000), rng.randrange(20)
        seconds = engine_s(tokens, decodes, tokens_per_s=tokens_per_s)

        assert number < 40 or pytest.approx(seconds, rel=0.02) == model.predict(tokens, decodes)
        model.learn(tokens, decodes, seconds)


def test_what_running_requests_cost_is_learned() -> None:
    """0.4 % of 0.1 ms per token and request."""
    rng = random.Random(2)
    model = PrefillModel(tokens_per_s=2000.0)
    for _ in range(300):
        tokens, decodes = rng.randrange(100, 8000), rng.randrange(40)
        model.learn(tokens, decodes, engine_s(tokens, decodes, tokens_per_s=10_000.0))

    assert pytest.approx((0.01, 1e-4, 4e-7), rel=0.02) == (
        model.overhead_s,
        model.s_per_token,
        model.decode_s_per_token,
    )


def test_short_prompts_are_predicted_as_well_as_long_ones() -> None:
    """Errors are relative: of a prompt of 8 tokens, the 10 ms are known within 3 % beside prompts of 16,000."""
    rng = random.Random(3)
    model = PrefillModel(tokens_per_s=2000.0)
    for _ in range(100):
        tokens = int(2.0 ** rng.uniform(3, 14))
        model.learn(tokens, 0, engine_s(tokens, 0, tokens_per_s=10_000.0) * rng.uniform(0.9, 1.1))

    assert pytest.approx(0.0108, rel=0.03) == model.predict(8.0)
    assert pytest.approx(1.61, rel=0.05) == model.predict(16_000.0)


def test_prompts_of_one_kind_leave_the_rest_to_the_prior() -> None:
    """3,000 tokens alone on the engine, again and again: they are predicted well, and no number is absurd."""
    model = PrefillModel(tokens_per_s=2000.0)
    for _ in range(1000):
        model.learn(3000.0, 0.0, 0.31)

    assert pytest.approx(0.31, rel=1e-3) == model.predict(3000.0)
    assert 0.005 <= model.overhead_s <= 0.02
    assert pytest.approx(1e-4, rel=0.1) == model.s_per_token
    assert pytest.approx(0.31, rel=0.1) == model.predict(3000.0, 32.0)


def test_prompts_without_tokens_show_the_fixed_time() -> None:
    """Everything is cached: 20 ms, whatever a token takes."""
    model = PrefillModel(tokens_per_s=2000.0)
    for _ in range(200):
        model.learn(0.0, 5.0, 0.02)

    assert pytest.approx(0.02, rel=0.01) == model.predict(0.0)
    assert model.s_per_token > 0.0


def test_prompts_that_were_held_up_move_it_little() -> None:
    """One of twenty takes fifty times as long. Predictions of the others stay within 10 %."""
    rng = random.Random(4)
    model = PrefillModel(tokens_per_s=10_000.0)
    for number in range(400):
        tokens = rng.randrange(100, 8000)
        held_up = 50.0 if number % 20 == 19 else 1.0
        model.learn(tokens, 0, held_up * engine_s(tokens, 0, tokens_per_s=10_000.0))

    assert pytest.approx(0.41, rel=0.1) == model.predict(4000.0)


def test_an_engine_that_slows_down_is_known_for_it() -> None:
    """Half as fast: after a hundred prompts, predictions are right within 10 %."""
    rng = random.Random(5)
    model = PrefillModel(tokens_per_s=2000.0)
    for tokens_per_s in (10_000.0, 5_000.0):
        for _ in range(100):
            tokens = rng.randrange(100, 8000)
            model.learn(tokens, 0, engine_s(tokens, 0, tokens_per_s=tokens_per_s))

    assert pytest.approx(0.81, rel=0.1) == model.predict(4000.0)


@pytest.mark.parametrize("seed", range(5))
def test_no_coefficient_is_ever_negative(seed: int) -> None:
    """Whatever the samples, even if long prompts take less time than short ones."""
    rng = random.Random(seed)
    model = PrefillModel(tokens_per_s=2000.0)
    for _ in range(300):
        model.learn(rng.choice((0.0, 1.0, 4000.0)), rng.randrange(50), 10.0 ** rng.uniform(-6, 3))

        assert 0.0 <= min(model.overhead_s, model.s_per_token, model.decode_s_per_token)
        assert 0.0 < model.predict(1000.0, 10.0) < 1e6
