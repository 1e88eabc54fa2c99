from typing import Any

import pytest

from benchmarks.chart import BarChart
from benchmarks.peers.routing.load import Look
from benchmarks.peers.routing.outcome import Effort, Outcome
from benchmarks.peers.routing.slices import Said, Session, Turn
from benchmarks.peers.routing.telling import tell
from benchmarks.peers.routing.trial import Trial
from benchmarks.peers.routing.workers import WorkerOptions
from benchmarks.report import Circumstances, Report

TRIAL = Trial([Session(0.0, [Turn(0.0, Said([]), 1)] * 2)], WorkerOptions(4, 100, 2500.0, 12.0, "fifo", 3.0), 4)


def an_outcome(router: str, **figures: Any) -> Outcome:
    same = dict.fromkeys(("ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "e2e_p50_s", "imbalance"), 1.0)
    plain: dict[str, Any] = {
        "is_ours": router.startswith("warmgate"),
        "requests": 2,
        "failures": {},
        "hit_rate": 0.5,
        "ttft_mean_s": 1.0,
        **same,
        "busiest_share": 0.25,
        "output_tokens": 2,
        "late_p99_s": 0.0,
        "effort": Effort(0.1, 0.1, 0.1),
        "took_s": 1.0,
    }
    return Outcome(router, **{**plain, **figures})


@pytest.fixture
def report() -> Report:
    return Report("peers_routing_any", "Any", Circumstances.observe(seed=1, packages=()))


def test_kv_aware_is_compared_with_the_fastest_of_the_others(report: Report) -> None:
    """Not with one of ours, which is faster."""
    outcomes = [
        an_outcome("warmgate kv_aware", ttft_mean_s=0.75),
        an_outcome("warmgate prefix_aware", ttft_mean_s=0.1),
        an_outcome("slow", ttft_mean_s=3.0),
        an_outcome("fast", ttft_mean_s=1.0),
    ]
    tell(report, TRIAL, outcomes, load=0.5)

    assert [0.75, 0] == [bar.value for bar in report.bars]
    assert "fast" in report.bars[0].what
    assert report.is_met


def test_a_failed_request_misses_a_bar(report: Report) -> None:
    tell(
        report,
        TRIAL,
        [an_outcome("warmgate kv_aware", ttft_mean_s=0.1, failures={"503": 1}), an_outcome("other")],
        load=1,
    )

    assert not report.is_met
    assert "1x 503" in report.markdown()


def test_what_is_worse_by_more_than_a_twentieth_is_listed(report: Report) -> None:
    """1.05 is not more."""
    ours = an_outcome("warmgate kv_aware", ttft_p50_s=1.05, ttft_p99_s=1.06, hit_rate=0.4)
    tell(report, TRIAL, [ours, an_outcome("one"), an_outcome("other", ttft_p99_s=9.0, hit_rate=0.3)], load=1.0)
    (table,) = (table for table in report.tables if table.title.startswith("Where"))

    assert [("hit rate", 0.4, 0.5, "one"), ("p99 s", 1.06, 1.0, "one")] == list(table.rows)


def test_nothing_worse_is_said_as_well(report: Report) -> None:
    tell(report, TRIAL, [an_outcome("warmgate kv_aware"), an_outcome("other")], load=1.0)
    (table,) = (table for table in report.tables if table.title.startswith("Where"))

    assert [("none", None, None, None)] == list(table.rows)


def test_without_ours_or_others_there_is_no_bar(report: Report) -> None:
    tell(report, TRIAL, [an_outcome("other")], load=1.0)

    assert [] == report.bars
    assert 2 == len(report.tables)


def test_a_report_says_what_the_workers_were_and_how_the_load_was_found(report: Report) -> None:
    tell(report, TRIAL, [an_outcome("other")], load=0.5, looks=[Look("other", 0.5, 3.9)], pins=["other==1.0"])
    notes = "\n".join(report.notes)

    for words in ("2 requests of 1 sessions", "100 blocks", "2,500 uncached", "4 times smaller", "3 times as fast"):
        assert words in notes
    assert "other at 0.5: 3.9 s" in notes
    assert "other==1.0" in notes
    assert "nearly full" not in notes


def test_a_report_says_when_the_machine_was_nearly_full(report: Report) -> None:
    tell(report, TRIAL, [an_outcome("other", effort=Effort(0.5, 0.5, 0.6))], load=1.0)

    assert "nearly full" in "\n".join(report.notes)


def test_prompts_as_long_as_recorded_are_said_to_be(report: Report) -> None:
    tell(report, Trial(TRIAL.sessions, TRIAL.workers, 1), [an_outcome("other")], load=1.0)

    assert "Prompts and answers are as long as recorded." in report.notes


def test_times_to_first_token_are_drawn_side_by_side(report: Report) -> None:
    tell(report, TRIAL, [an_outcome("one", ttft_mean_s=0.5), an_outcome("other", ttft_p90_s=9.0)], load=2.0)
    (chart,) = report.charts

    assert isinstance(chart, BarChart)
    assert {"one": [0.5, 1.0, 1.0], "other": [1.0, 1.0, 9.0]} == chart.series
