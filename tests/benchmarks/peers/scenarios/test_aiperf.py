import json
from pathlib import Path
from typing import Any

from benchmarks.peers.entrants import OURS
from benchmarks.peers.scenarios.aiperf import MOST_OUTPUT_TOKENS, Reading, head, read, tell
from tests.benchmarks.peers.scenarios.made_up import a_report

SUMMARY: dict[str, Any] = {
    "request_count": {"unit": "requests", "avg": 7.0},
    "time_to_first_token": {"unit": "ms", "avg": 1.0, "p50": 2.0, "p90": 3.0, "p99": 4.0, "min": 0.5},
}


def test_the_head_is_what_came_in_the_first_seconds_with_short_answers(tmp_path: Path) -> None:
    lines = [{"timestamp": 1000 * at, "input_length": 9, "output_length": 500, "hash_ids": [at]} for at in range(5)]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = [json.loads(line) for line in head(trace, 3.0)]

    assert [[0], [1], [2]] == [line["hash_ids"] for line in found]
    assert {MOST_OUTPUT_TOKENS} == {line["output_length"] for line in found}


def test_a_metric_that_aiperf_does_not_tell_is_left_out() -> None:
    found = read("x", 0, SUMMARY, asked=9, hit_rate=0.5)

    assert {"time_to_first_token": {"avg": 1.0, "p50": 2.0, "p90": 3.0, "p99": 4.0}} == found.milliseconds
    assert (9, 7) == (found.asked, found.answered)
    assert 0 == read("x", 0, {}, asked=9, hit_rate=0.0).answered


def test_a_request_without_an_answer_misses_the_bar() -> None:
    report = a_report()
    tell(report, [read(OURS, 0, SUMMARY, asked=9, hit_rate=0.5), Reading("y", 0, 9, 9, {}, 0.1)])

    assert 2 == report.bars[0].value
    assert not report.is_met
    assert ["7 of 9", "9 of 9"] == [row[1] for row in report.tables[0].rows]
