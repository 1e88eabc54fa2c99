from typing import Any

import pytest

from benchmarks.picker.chaos import fill, parse_arguments
from benchmarks.picker.chaos_rig import two_pickers
from benchmarks.picker.contract import KINDS, Fault, Outcome
from benchmarks.report import Circumstances, Report

FAULTS = [Fault(kind, 100.0 * number, "0") for number, kind in enumerate(KINDS)]
"""A worker is killed at the start, and a picker after 200 s."""
RIGHT = [Outcome(0.0, 1.0, "right")] * 9


def filled(*outcomes: Outcome, faults: list[Fault] = FAULTS) -> Report:
    report = Report("picker_chaos", "Chaos", Circumstances.observe(seed=1, packages=()))
    fill(report, [*RIGHT, *outcomes], faults)
    return report


@pytest.mark.parametrize(
    ("outcome", "is_met"),
    [
        (Outcome(0.0, 1.0, "cut"), True),
        (Outcome(203.0, 203.1, "status 500"), True),
        (Outcome(100.0, 101.0, "status 503"), False),
        (Outcome(0.0, 1.0, "wrong text"), False),
    ],
)
def test_only_failures_of_the_contract_are_allowed(outcome: Outcome, is_met: bool) -> None:
    assert is_met == filled(outcome).is_met


def test_all_kinds_of_faults_must_have_been_caused() -> None:
    assert not filled(faults=FAULTS[1:]).is_met


def test_failures_are_counted_by_their_cause() -> None:
    text = filled(Outcome(0.0, 1.0, "cut"), Outcome(0.0, 1.0, "cut"), Outcome(100.0, 101.0, "status 503")).markdown()

    assert "| worker killed | 1 | 2 | 2 cut |" in text
    assert "| no fault explains it | – | 1 | 1 status 503 |" in text


def test_envoy_asks_all_pickers() -> None:
    clusters = two_pickers(["127.0.0.1:1", "127.0.0.1:2"], ["127.0.0.1:3"])["static_resources"]["clusters"]
    (members,) = (
        each["load_assignment"]["endpoints"][0]["lb_endpoints"]
        for each in clusters
        if each["name"].startswith("picker-of-")
    )
    ports: list[Any] = [each["endpoint"]["address"]["socket_address"]["port_value"] for each in members]

    assert [1, 2] == ports


def test_a_run_for_the_record_takes_ten_minutes() -> None:
    assert 600.0 == parse_arguments([]).seconds
