import random

import pytest

from benchmarks.report import Circumstances, Report
from benchmarks.trace_export import NOTHING, Cost, Delay, Ours, Sdk, ended_requests, fill, parse_arguments
from gateway.telemetry.trace_export.request_span import request_span


def filled(cpu_ratio: float, delay_ratio: float) -> Report:
    """A report on two rounds, the second twice as slow."""
    report = Report("trace_export", "Traces", Circumstances.observe(seed=1, packages=()))
    costs = [Cost(Ours.name, 10.0), Cost(Sdk.name, 10.0 * cpu_ratio), Cost(Ours.name, 20.0), Cost(Sdk.name, 99.0)]
    delays = [Delay(NOTHING, 0.5, 0.6), Delay(Ours.name, 0.5, 2.0), Delay(Sdk.name, 0.5, 2.0 * delay_ratio)]
    fill(report, costs, delays)
    return report


@pytest.mark.parametrize(
    ("cpu_ratio", "delay_ratio", "met"),
    [(1.2, 3.0, [True, True]), (0.9, 3.0, [False, True]), (1.2, 1.9, [True, False])],
)
def test_ours_is_kept_where_it_costs_no_more_and_delays_less(
    cpu_ratio: float, delay_ratio: float, met: list[bool]
) -> None:
    """Ratios are those of the best rounds."""
    assert met == [bar.is_met for bar in filled(cpu_ratio, delay_ratio).bars]


def test_there_is_a_row_for_each_exporter() -> None:
    rows = [[row[0] for row in table.rows] for table in filled(1.2, 3.0).tables]

    assert [[Ours.name, Sdk.name], [NOTHING, Ours.name, Sdk.name]] == rows


def test_requests_have_the_spans_of_an_answered_one() -> None:
    """Each has its own ids, and attributes as the proxy sets them."""
    first, second = ended_requests(2, random.Random(1))

    names = ["authenticate", "receive", "parse", "tokenize", "reserve", "attempt", "relay"]
    assert names == [span.name for span in first.trace.spans]
    assert first.trace.trace_id != second.trace.trace_id
    assert "llama-70b" == request_span(first).attributes["gen_ai.response.model"]


def test_the_options_have_defaults() -> None:
    arguments = parse_arguments([])

    assert (9, 512) == (arguments.rounds, arguments.requests)
