"""What prefill apart from decode is measured by."""

import argparse
import random

import httpx
import pytest

from benchmarks.disaggregation import (
    Answer,
    Clients,
    Summary,
    arrivals,
    body,
    parse_arguments,
    remote_prefills,
    tell,
)
from benchmarks.report import Circumstances, Report
from simulator.tokens import TokenSequence

EVENT = 'data: {"choices":[{"index":0,"text":"t"}]}\n\n'


@pytest.fixture
def options() -> argparse.Namespace:
    return parse_arguments([])


def a_summary(setup: str, prompt_tokens: int, tpot_p99_s: float) -> Summary:
    return Summary(setup, prompt_tokens, 100, 50, 0.5, 0.6, 0.7, 0.01, tpot_p99_s, 0.2)


@pytest.mark.parametrize("prompt_tokens", [1000, 8000, 32_000])
def test_prompts_are_as_long_as_they_should_be_and_have_nothing_in_common(prompt_tokens: int) -> None:
    """Their first block is 16 tokens, 64 characters."""
    prompts = [body(number, prompt_tokens, 128)["prompt"] for number in (0, 1, 0x789ABC)]

    assert [prompt_tokens] * 3 == [len(TokenSequence.from_text(prompt)) for prompt in prompts]
    assert 3 == len({prompt[:64] for prompt in prompts})


def test_requests_come_at_random_at_their_rate_and_in_their_time() -> None:
    times = arrivals(100.0, 100.0, random.Random(1))

    assert 9500 < len(times) < 10_500
    assert sorted(times) == times
    assert times[-1] < 100.0
    assert times == arrivals(100.0, 100.0, random.Random(1))
    assert 1 == len(arrivals(0.001, 0.001, random.Random(1)))


async def test_times_are_those_of_the_workers() -> None:
    """They live a thousand times as fast: what takes us a millisecond takes them a second."""
    gateway = httpx.MockTransport(lambda _: httpx.Response(200, text=EVENT * 3 + "data: [DONE]\n\n"))
    async with httpx.AsyncClient(transport=gateway) as client:
        answer = await Clients("http://gateway", client, 1e9).ask(body(1, 100, 3))

    assert 2 == len(answer.gaps_s)
    assert answer.ttft_s > 1000.0


@pytest.mark.parametrize("text", ["", EVENT, 'data: {"error":{"message":"no"}}\n\n'])
async def test_an_answer_that_is_not_one_ends_the_run(text: str) -> None:
    """It would be the fastest of all."""
    gateway = httpx.MockTransport(lambda _: httpx.Response(200, text=text))
    async with httpx.AsyncClient(transport=gateway) as client:
        with pytest.raises(RuntimeError):
            await Clients("http://gateway", client, 1.0).ask(body(1, 100, 3))


async def test_requests_do_not_wait_for_each_other() -> None:
    gateway = httpx.MockTransport(lambda _: httpx.Response(200, text=EVENT * 2))
    async with httpx.AsyncClient(transport=gateway) as client:
        answers = await Clients("http://gateway", client, 1e6).come([body(i, 10, 2) for i in range(5)], [1.0] * 5)

    assert 5 == len(answers)


def test_answers_are_summed_up() -> None:
    answers = [Answer(float(i), [0.01 * i, 0.03 * i]) for i in range(1, 101)]
    summary = Summary.of("whole", 8000, answers, 7)

    assert (100, 7, 51.0, 91.0, 100.0) == (
        *(summary.requests, summary.remote, summary.ttft_p50_s, summary.ttft_p90_s, summary.ttft_p99_s),
    )
    assert (1.02, 2.0, 2.97) == pytest.approx((summary.tpot_p50_s, summary.tpot_p99_s, summary.gap_p99_s), rel=0.01)


def test_remote_prefills_are_read_from_metrics() -> None:
    exposition = (
        '# TYPE warmgate_prefills_total counter\nwarmgate_prefills_total{model="tiny",location="remote"} 12.0\n'
        'warmgate_prefills_total{model="tiny",location="here"} 3.0\n'
    )

    assert 12 == remote_prefills(exposition)
    assert 0 == remote_prefills("")


def test_the_bars_are_about_the_pace_of_answers_to_long_prompts(options: argparse.Namespace) -> None:
    report = Report("disaggregation", "", Circumstances.observe(seed=1, packages=()))
    pairs = [
        (a_summary("whole", 1000, 0.02), a_summary("divided", 1000, 0.03)),
        (a_summary("whole", 8000, 0.02), a_summary("divided", 8000, 0.01)),
        (a_summary("whole", 32_000, 0.02), a_summary("divided", 32_000, 0.02)),
    ]
    tell(report, pairs, options)

    assert [(0.5, True), (1.0, False)] == [(bar.value, bar.is_met) for bar in report.bars]
    assert 6 == len(report.tables[0].rows)
    assert (8000, "4 that do both") == tuple(report.tables[0].rows[2][:2])
    assert (8000, "2 prefill, 2 decode") == tuple(report.tables[0].rows[3][:2])
    assert (8000, 1.0, 1.0, 1.0, 0.5, 1.0) == tuple(report.tables[1].rows[1])
