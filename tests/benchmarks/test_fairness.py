import argparse
import asyncio

import httpx
import pytest

from benchmarks.fairness import OUTPUT_TOKENS, Clients, Found, Side, Summary, parse_arguments, sides, tell
from benchmarks.report import Circumstances, Report
from simulator.tokens import TokenSequence

STREAM = """data: {"choices":[{"index":0,"text":"t"}]}

data: [DONE]

"""


@pytest.fixture
def options() -> argparse.Namespace:
    return parse_arguments([])


def a_summary(p99_s: float) -> Summary:
    return Summary("any", 1000, 0.1, 0.2, p99_s, 9.0)


def test_prompts_are_as_long_as_they_should_be_and_have_nothing_in_common(options: argparse.Namespace) -> None:
    """Their first block is 16 tokens, 64 characters."""
    flood, sparse = sides(options)
    prompts = [side.body(number)["prompt"] for side in (flood, sparse) for number in (1, 0x789ABC, 0xDEF0)]

    assert [4096] * 3 + [1024] * 3 == [len(TokenSequence.from_text(prompt)) for prompt in prompts]
    assert 6 == len({prompt[:64] for prompt in prompts})


async def test_a_time_to_first_token_is_that_of_the_workers() -> None:
    """They live a thousand times as fast: 20 ms of ours are 20 s of theirs, and more."""
    asked: list[httpx.Request] = []

    async def gateway(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        await asyncio.sleep(0.02)
        return httpx.Response(200, text=STREAM)

    async with httpx.AsyncClient(transport=httpx.MockTransport(gateway)) as client:
        ttft_s = await Clients("http://gateway", client, 1000.0).ttft_s(Side("sparse", 64))

    assert ttft_s >= 20.0
    assert ["Bearer key-of-the-team-that-does-not"] == [request.headers["authorization"] for request in asked]
    assert f'"max_tokens":{OUTPUT_TOKENS}'.encode() in asked[0].content


@pytest.mark.parametrize("text", ["", 'data: {"error":{"message":"no"}}\n\n'])
async def test_an_answer_that_is_not_one_ends_the_run(text: str) -> None:
    """It would be the fastest of all."""
    gateway = httpx.MockTransport(lambda _: httpx.Response(200, text=text))
    async with httpx.AsyncClient(transport=gateway) as client:
        with pytest.raises(RuntimeError):
            await Clients("http://gateway", client, 1.0).ttft_s(Side("sparse", 64))


async def test_the_sparse_team_does_not_wait_for_answers() -> None:
    """All four are under way at one time, and each is counted."""
    under_way: set[httpx.Request] = set()
    most = asyncio.Event()

    async def gateway(request: httpx.Request) -> httpx.Response:
        under_way.add(request)
        if len(under_way) == 4:
            most.set()
        await most.wait()
        return httpx.Response(200, text=STREAM)

    async with httpx.AsyncClient(transport=httpx.MockTransport(gateway)) as client, asyncio.timeout(60):
        ttfts_s = await Clients("http://gateway", client, 1.0).sparse(Side("sparse", 64), 4, per_s=1000.0)

    assert 4 == len(ttfts_s)


def test_a_summary_has_the_slow_ones() -> None:
    summary = Summary.of("alone", [float(i) for i in reversed(range(100))])

    assert (100, 50.0, 90.0, 99.0, 99.0) == (
        summary.requests,
        summary.p50_s,
        summary.p90_s,
        summary.p99_s,
        summary.max_s,
    )


@pytest.mark.parametrize(
    ("fair_s", "in_order_s", "met"), [(0.9, 60.0, [True, True]), (1.1, 60.0, [False, True]), (0.9, 3.0, [True, False])]
)
def test_both_bars_have_to_be_met(
    options: argparse.Namespace, fair_s: float, in_order_s: float, met: list[bool]
) -> None:
    """Alone it is 0.5 s, and a prefill takes 0.4 s."""
    prefill = Summary("one by one", 20, 0.4, 0.4, 0.4, 0.4)
    report = Report("fairness", "any", Circumstances.observe(seed=None, packages=()))
    tell(report, Found(a_summary(0.5), prefill, a_summary(fair_s), a_summary(in_order_s)), options)

    assert met == [bar.is_met for bar in report.bars]
