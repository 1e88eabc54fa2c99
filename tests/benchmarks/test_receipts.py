"""Facts about the benchmark of receipts."""

import argparse
import random

from benchmarks.receipts import endless, measure
from gateway.proxy.decision import Decision


def test_a_short_run_reports_memory_growth_and_time() -> None:
    report = measure(argparse.Namespace(seed=1, size=200, requests=1000, workers=3))

    assert ["MiB of 200 receipts", "MiB more after 1,000 requests"] == [bar.what for bar in report.bars[:2]]
    assert [16.0, 1.0, 100.0] == [bar.limit for bar in report.bars]


def test_requests_have_the_decisions_of_a_fleet() -> None:
    """Prompts return after a while, and then a worker has them."""
    requests = endless(random.Random(1), workers=3)
    decisions = [next(requests).exchange.decision for _ in range(600)]

    assert {3} == {decision.count for decision in decisions if isinstance(decision, Decision)}
    assert "hit" in {next(requests).exchange.reason for _ in range(50)}
