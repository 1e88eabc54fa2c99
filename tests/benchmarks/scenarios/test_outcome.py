import dataclasses

import pytest

from benchmarks.scenarios.outcome import Outcome, cost_usd, gpu_s_per_thousand, percentile
from replay.run import Answer


def answers(count: int = 100) -> list[Answer]:
    """One comes every second, with its first token after half a second, its last after 2 s, and half of it cached."""
    return [answer(n, ttft_s=0.5, took_s=2.0, cached_tokens=500) for n in range(count)]


def answer(number: int, *, ttft_s: float, took_s: float, cached_tokens: int) -> Answer:
    return Answer(
        number,
        0,
        ttft_s,
        0.0,
        1_000,
        cached_tokens,
        arrived_at=float(number),
        ended_at=number + took_s,
        output_tokens=10,
    )


def test_the_first_fifth_and_the_last_tenth_do_not_count() -> None:
    """Requests 20 to 89 do, in 69 s; as many answers ended in that time as came, one in each second."""
    outcome = Outcome.of(list(reversed(answers())), workers=2)

    assert 70 == outcome.requests
    assert 0.5 == outcome.hit == outcome.ttft_mean_s == outcome.ttft_p50_s == outcome.ttft_p99_s
    assert 2.0 == outcome.latency_mean_s == outcome.latency_p90_s
    assert pytest.approx(1.0) == outcome.answers_per_s
    assert pytest.approx(10.0) == outcome.output_tokens_per_s
    assert pytest.approx(2_000.0) == outcome.gpu_s


def test_the_share_of_prefill_is_that_of_all_gpus() -> None:
    """70 times 500 tokens at 10,000 a second are 3.5 s, of two GPUs in 69 s."""
    assert pytest.approx(3.5 / (2 * 69)) == Outcome.of(answers(), workers=2).prefill_share


def test_what_warms_up_does_not_count_though_it_is_slow() -> None:
    """Times of the first fifth are left out whatever they are."""
    slow = [answer(n, ttft_s=50.0, took_s=60.0, cached_tokens=0) for n in range(20)]

    assert 0.5 == Outcome.of(slow + answers()[20:], workers=1).ttft_p99_s


def test_too_few_answers_are_no_outcome() -> None:
    with pytest.raises(ValueError, match="2 answers are too few"):
        Outcome.of(answers(2), workers=1)
    with pytest.raises(ValueError, match="at one moment"):
        Outcome.of([dataclasses.replace(each, arrived_at=0.0) for each in answers()], workers=1)


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(10)]

    assert (5.0, 9.0, 9.0) == (percentile(values, 50), percentile(values, 90), percentile(values, 100))


def test_gpus_are_paid_for_though_they_idle() -> None:
    """7 GPUs for 100 s and 350 answers: 2,000 GPU-seconds for a thousand, at 7.2 USD an hour 4 USD."""
    assert 2_000.0 == gpu_s_per_thousand(350, 100.0, 7)
    assert pytest.approx(4.0) == cost_usd(2_000.0, 7.2)
    assert float("inf") == gpu_s_per_thousand(0, 100.0, 7)
