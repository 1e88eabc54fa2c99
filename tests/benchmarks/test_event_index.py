from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from benchmarks.event_index import FIGURES, HIT, INGEST, MOST, SHARED_MEMORY, SINGLE_MEMORY, bytes_per_block, tell
from benchmarks.index import parse_arguments
from benchmarks.peers.dynamo.rounds import Sides
from benchmarks.report import Report
from tests.benchmarks.test_report import circumstances


def found(times: float, *, memory: Sequence[float] = (100.0,) * 8, wrong: int = 0) -> Mapping[str, Any]:
    """What a process finds that takes *times* as long as the other."""
    work = {"blocks": 1_000, "messages": 10, "wall_s": 0.001 * times, "cpu_s": 0.0005 * times}
    lookups = dict.fromkeys(("whole", "system", "new"), 20.0 * times)
    return {
        **dict.fromkeys(("stored", "stored_singly", "removed", "removed_singly"), work),
        "match_us": lookups,
        "hash_and_match_us": lookups,
        "bytes_per_block": memory,
        "wrong": wrong,
    }


def report_of(shared: Sides, single: Sides) -> Report:
    report = Report("index", "The prefix indexes", circumstances())
    tell(report, shared, single, "64 workers")
    return report


def test_three_times_as_long_is_the_most_and_more_memory_is_too_much() -> None:
    """Level with Dynamo all bars are met; beyond they are missed."""
    level = Sides([found(1.0)], [found(1.0)])
    slow = Sides([found(3.1)], [found(1.0)])
    large = Sides([found(1.0, memory=(101.0,) * 8)], [found(1.0)])

    assert report_of(level, level).is_met
    assert [f"{name}: ours, of Dynamo's" for name in MOST if name not in {SHARED_MEMORY, SINGLE_MEMORY}] == [
        bar.what for bar in report_of(slow, level).bars if not bar.is_met
    ]
    assert [f"{SINGLE_MEMORY}: ours, of Dynamo's"] == [
        bar.what for bar in report_of(level, large).bars if not bar.is_met
    ]


def test_a_wrong_match_of_either_misses_a_bar() -> None:
    """Both are asked, because two answers to different questions cannot be compared."""
    level = Sides([found(1.0)], [found(1.0)])
    wrong = Sides([found(1.0)], [found(1.0, wrong=1)])

    assert ["matches that are not what the engines told"] == [
        bar.what for bar in report_of(level, wrong).bars if not bar.is_met
    ]


def test_the_table_has_both_sides_and_their_ratio() -> None:
    """In the units that the rows name."""
    rows = {name: three for name, *three in report_of(*[Sides([found(2.0)], [found(1.0)])] * 2).tables[0].rows}

    assert {*FIGURES, SINGLE_MEMORY} == set(rows)
    assert [2_000.0, 1_000.0, 2.0] == pytest.approx([spread.median for spread in rows[INGEST]])  # type: ignore[union-attr]
    assert [40.0, 20.0, 2.0] == pytest.approx([spread.median for spread in rows[HIT]])  # type: ignore[union-attr]


def test_memory_is_the_worst_of_the_second_half() -> None:
    """At first a table may be half empty, and a process has what it needs once."""
    assert 90.0 == bytes_per_block(found(1.0, memory=[300.0, 200.0, 150.0, 120.0, 80.0, 90.0, 70.0, 60.0]))


def test_a_run_without_dynamo_installs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """For anyone who only looks at the index of what was sent."""
    monkeypatch.setattr("sys.argv", ["index", "--without-dynamo", "--told", "1000"])
    arguments = parse_arguments()

    assert arguments.without_dynamo
    assert (1_000, 5, False) == (arguments.told, arguments.rounds, arguments.sources)
