"""What the benchmark of LoRA adapters asks, and what it makes of the answers."""

import argparse
from collections import Counter

import httpx
import pytest

from benchmarks.adapters import (
    HOT_SHARE,
    Arrival,
    Summary,
    arrivals,
    loads_in,
    parse_arguments,
    replayed,
    tell,
)
from benchmarks.report import Circumstances, Report
from simulator.tokens import TokenSequence

STREAM = 'data: {"choices":[{"index":0,"text":"t"}]}\n\ndata: [DONE]\n\n'
METRICS = """# TYPE warmgate_adapter_loads_total counter
warmgate_adapter_loads_total{model="adapter-0",result="loaded"} 3.0
warmgate_adapter_loads_total{model="adapter-0",result="failed"} 1.0
warmgate_adapter_loads_total{model="adapter-1",result="loaded"} 2.0
warmgate_adapter_loads_total{model="adapter-1",result="unloaded"} 7.0
"""


@pytest.fixture
def options() -> argparse.Namespace:
    return parse_arguments(["--requests", "2000"])


def summaries(*, loads: int = 2, p95_s: float = 0.2) -> list[Summary]:
    """The gateway that weighs costs as given, beside one with 10 loads and a p95 of 1 s."""
    return [
        Summary(workload, strategy, 100, loads if by_cost else 10, 0.1, p95_s if by_cost else 1.0, 2.0)
        for workload in ("even", "hot")
        for strategy, by_cost in (("prefix_aware", True), ("round_robin", False))
    ]


def test_every_gateway_gets_the_same_requests(options: argparse.Namespace) -> None:
    """At the same times; and each workload is what it is called."""
    even, hot = arrivals("even", options), arrivals("hot", options)
    shares = Counter(arrival.adapter for arrival in hot)

    assert even == arrivals("even", options)
    assert 2000 == len({arrival.number for arrival in even})
    assert even[-1].at_s == pytest.approx(2000 / 12, rel=0.1)
    assert set(Counter(arrival.adapter for arrival in even).values()) <= set(range(270, 400))
    assert shares["adapter-0"] / 2000 == pytest.approx(HOT_SHARE + (1 - HOT_SHARE) / 6, abs=0.02)


def test_prompts_are_as_long_as_they_should_be_and_have_nothing_in_common() -> None:
    """Their first block is 16 tokens, 64 characters."""
    prompts = [Arrival(0.0, "adapter-0", number).body(1200)["prompt"] for number in (0, 1, 16, 239)]

    assert [1200] * 4 == [len(TokenSequence.from_text(prompt)) for prompt in prompts]
    assert 4 == len({prompt[:64] for prompt in prompts})


async def test_requests_are_sent_at_their_times_and_measured() -> None:
    wanted = [Arrival(0.0, "adapter-0", 0), Arrival(0.02, "adapter-1", 1)]
    asked: list[bytes] = []

    def gateway(request: httpx.Request) -> httpx.Response:
        asked.append(request.content)
        return httpx.Response(200, text=STREAM)

    async with httpx.AsyncClient(transport=httpx.MockTransport(gateway)) as client:
        ttfts_s = await replayed(client, "http://gateway", wanted, 16)

    assert 2 == len(ttfts_s)
    assert all(b'"model":"adapter-%d"' % number in body for number, body in enumerate(asked))


async def test_an_answer_that_is_not_one_ends_the_run() -> None:
    """It would be the fastest of all."""
    gateway = httpx.MockTransport(lambda _: httpx.Response(200, text=""))
    async with httpx.AsyncClient(transport=gateway) as client:
        with pytest.raises(ExceptionGroup):
            await replayed(client, "http://gateway", [Arrival(0.0, "adapter-0", 0)], 16)


def test_loads_are_those_that_came_to_something() -> None:
    assert 5 == loads_in(METRICS)
    assert 0 == loads_in("")


def test_a_summary_is_made_of_all_requests() -> None:
    summary = Summary.of("even", "prefix_aware", 3, [float(each) for each in range(100)])

    assert (100, 3, 50.0, 95.0, 99.0) == (summary.requests, summary.loads, summary.p50_s, summary.p95_s, summary.p99_s)


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (summaries(), []),
        (summaries(loads=6), ["even: loads", "hot: loads"]),
        (summaries(p95_s=1.5), ["even: TTFT p95", "hot: TTFT p95"]),
        (summaries(loads=0), ["hot: loads"]),
    ],
)
def test_each_promise_has_a_bar(options: argparse.Namespace, found: list[Summary], missed: list[str]) -> None:
    report = Report("adapters", "title", Circumstances.observe(seed=1, packages=()))
    tell(report, found, options)

    assert missed == [bar.what.partition(",")[0] for bar in report.bars if not bar.is_met]
