from collections.abc import Mapping
from typing import Any

from benchmarks.decision import tell
from benchmarks.peers.dynamo.rounds import Sides
from benchmarks.report import Report
from tests.benchmarks.test_report import circumstances


def found(turn_us: float, *, wrong: int = 0) -> Mapping[str, Any]:
    """What a process finds that takes *turn_us* for a later turn and 100 µs for the others."""
    times = {"turn": turn_us, "system": 100.0, "new": 100.0}
    return {"decision_us": times, "packed_us": times, "parts_us": {"hash": 10.0}, "wrong": wrong}


def reported(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Report:
    report = Report("decision", "A decision", circumstances())
    tell(report, Sides([ours], [theirs]), "64 workers")
    return report


def test_every_kind_of_prompt_has_to_be_twice_as_fast() -> None:
    """The bar is held against the worst of them, whichever it is."""
    theirs = {**found(400.0), "decision_us": {"turn": 400.0, "system": 900.0, "new": 200.0}}
    report = reported(found(150.0), theirs)

    assert [2.0] == [bar.value for bar in report.bars if "worst" in bar.what]
    assert report.is_met
    assert not reported(found(210.0), theirs).is_met


def test_a_wrong_decision_of_either_misses_a_bar() -> None:
    """Speed for wrong decisions is not one."""
    theirs = {**found(400.0), "decision_us": dict.fromkeys(("turn", "system", "new"), 900.0)}
    report = reported(found(100.0, wrong=1), theirs)

    assert ["decisions for a worker that has less of the prompt than another"] == [
        bar.what for bar in report.bars if not bar.is_met
    ]


def test_the_parts_of_ours_have_a_table() -> None:
    """Anyone who wants it faster looks there first."""
    parts = reported(found(100.0), found(400.0)).tables[1]

    assert ["hash"] == [name for name, _ in parts.rows]
