import dataclasses
import statistics

import pytest

from benchmarks.scenarios.hundred_thousand import CONVERSATIONS, MEAN_TURNS, REQUESTS, capacity
from benchmarks.scenarios.outcome import Outcome
from tests.benchmarks.scenarios.examples import outcome


def test_requests_are_as_many_and_as_long_as_was_published() -> None:
    """100,000 of 4,000 tokens in and 800 out, in the mean."""
    part = dataclasses.replace(CONVERSATIONS, sessions=4_000)
    requests = part.trace(1).requests

    assert REQUESTS == CONVERSATIONS.sessions * MEAN_TURNS
    assert pytest.approx(4_000 * MEAN_TURNS, rel=0.02) == len(requests)
    assert pytest.approx(4_000, rel=0.02) == statistics.fmean(request.prompt_tokens for request in requests)
    assert pytest.approx(800, rel=0.02) == statistics.fmean(request.output_tokens for request in requests)


def test_capacity_is_the_last_rate_before_the_limit_is_passed() -> None:
    """Round robin passes a second at 20, so that its 30 does not count; ours never does; the third never is within."""
    swept = {
        "10": at(10.0, 0.5, 0.1, 3.0),
        "20": at(20.0, 1.5, 0.2, 3.0),
        "30": at(30.0, 0.9, 0.3, 3.0),
    }
    table = capacity(swept, 7.2)

    assert [
        ("round_robin", 10.0, 1_000.0, 2.0),
        ("kv_aware", 30.0, 1_000.0, 2.0),
        ("prefix_aware", None, None, None),
    ] == [tuple(row) for row in table.rows]


def at(per_s: float, *p90_s: float) -> dict[str, list[Outcome]]:
    names = ("round_robin", "kv_aware", "prefix_aware")
    return {name: [outcome(ttft_p90_s=p90, answers_per_s=per_s)] for name, p90 in zip(names, p90_s, strict=True)}
