"""The report; and the whole of it, for some seconds, with everything in earnest."""

from collections.abc import Sequence

import pytest

from benchmarks.chaos import TOTALS, Outcome, Phase, parse_arguments, percentile, run, tell
from benchmarks.chaos_clients import RIGHT, Record, Verdict
from benchmarks.chaos_faults import Inflicted
from benchmarks.report import Circumstances, Report

FAULTS = [Inflicted(1.0, "kill", ["http://w0"], 0.5), Inflicted(2.0, "kill", ["http://w1"], 0.5)]


def record(kind: str = "right", *, took_s: float = 2.5, ttft_s: float | None = 0.1, pause_s: float = 0.1) -> Record:
    verdict = RIGHT if kind == "right" else Verdict(kind, "why")
    return Record("chaos-1", 0.0, ttft_s, took_s, verdict, pause_s)


def reported(chaos: Sequence[Record], *arguments: str, continued: float | None = 3.0) -> Report:
    report = Report("chaos", "Chaos", Circumstances.observe(seed=1, packages=()))
    outcome = Outcome(
        Phase("no faults", [record()], 1.0),
        Phase("faults", chaos, 1.0),
        FAULTS,
        0,
        dict.fromkeys(TOTALS, continued),
    )
    tell(report, outcome, parse_arguments(arguments))
    return report


def verdicts(report: Report) -> list[bool]:
    return [bar.is_met for bar in report.bars]


def test_a_run_without_a_failure_is_met() -> None:
    """No answer is wrong, no client saw an error, and some streams went on elsewhere."""
    assert [True, True, True, True] == verdicts(reported([record(), record()]))
    assert [True, True, True, False] == verdicts(reported([record()], continued=0.0))
    assert [True, True, True] == verdicts(reported([record()], continued=None))


def test_wrong_answers_and_errors_are_distinguished() -> None:
    """Each has a bar."""
    assert [False, True] == verdicts(reported([record("wrong text")]))[:2]
    assert [True, False] == verdicts(reported([record("cut")]))[:2]
    assert [True, False] == verdicts(reported([record("status 503", took_s=11.0)]))[:2]


def test_with_all_down_a_503_is_right_after_the_wait() -> None:
    assert [True, True] == verdicts(reported([record("status 503", pause_s=10.0)], "--all-down"))[:2]
    assert [True, True] == verdicts(reported([record("error event x", pause_s=10.0)], "--all-down"))[:2]
    assert [True, False] == verdicts(reported([record("status 503", pause_s=9.0)], "--all-down"))[:2]
    assert [True, False] == verdicts(reported([record("error event x", took_s=20.0)], "--all-down"))[:2]
    assert [True, False] == verdicts(reported([record("status 502", pause_s=11.0)], "--all-down"))[:2]


def test_the_report_counts_and_compares() -> None:
    """Latency is that of right answers; what failed is shown with its reason."""
    page = reported([record(took_s=3.5), record("cut", took_s=99.0)]).markdown()

    assert "| cut | 0 | 1 |" in page
    assert "| whole answer p50 s | 2.5 | 3.5 | 1 |" in page
    assert "| kill | 2 |" in page
    assert "| chaos-1 | 99.00 | cut | why |" in page


def test_percentiles() -> None:
    assert [None, 7.0, 50.0, 99.0] == [
        percentile([], 50),
        percentile([7.0], 99),
        percentile(range(101), 50),
        percentile(range(101), 99),
    ]


@pytest.mark.timeout(240)  # a dozen processes begin, one after the other where the machine is busy
@pytest.mark.e2e
def test_some_seconds_of_chaos() -> None:
    """With one worker that can be spared: no answer is wrong."""
    arguments = ["--minutes", "0.04", "--calm-s", "0.3", "--clients", "4", "--client-processes", "1"]
    arguments += ["--tokens", "8", "--workers", "3"]
    report = run(parse_arguments([*arguments, "--faults-per-s", "2"]))
    wrong = {bar.what: bar.value for bar in report.bars}["wrong answers"]

    assert 0 == wrong
    assert report.figures["kinds"]["faults"]["right"] > 0
    assert report.figures["inflicted"]
