from collections import Counter

import pytest
import uvloop

from benchmarks.bench import Target
from benchmarks.peers.entrants import OURS, SGLANG
from benchmarks.peers.field import Setting
from benchmarks.peers.scenarios.failures import FAULTS, Reading, Sick, failed_shares, one_fault, tell
from benchmarks.processes import Processes, start_stub_worker
from tests.benchmarks.peers.scenarios.made_up import a_report

REFUSES, _, ANSWERS_500, DIES = FAULTS


def reading(target: str, fault: str, *, failed: int, failing_s: float | None = None) -> Reading:
    return Reading(target, fault, 0, 100, Counter({"whole": 100 - failed, "status 500": failed}), failing_s)


@pytest.mark.parametrize(("failed", "is_met"), [(3, True), (4, False)])
def test_the_bar_is_the_share_that_the_best_router_loses(failed: int, is_met: bool) -> None:
    report = a_report()
    others = {SGLANG: 30, "smg cache_aware": 3}
    found = [reading(name, fault.name, failed=lost) for name, lost in others.items() for fault in FAULTS]
    tell(report, [*found, *(reading(OURS, fault.name, failed=failed) for fault in FAULTS)])

    assert is_met == report.is_met
    assert len(FAULTS) == len(report.bars)


def test_the_tables_say_what_failed_and_for_how_long() -> None:
    report = a_report()
    found = [reading(OURS, fault.name, failed=0) for fault in FAULTS[1:]]
    tell(report, [reading(OURS, REFUSES.name, failed=7, failing_s=2.5), *found])
    failed, seconds = report.tables

    assert "7 of 100 (status 500: 7)" == failed.rows[0][1]
    assert "0 of 100" == failed.rows[0][2]
    assert (2.5, None) == (seconds.rows[0][1], seconds.rows[0][2])


def test_shares_are_over_all_rounds() -> None:
    found = [reading(OURS, REFUSES.name, failed=10), reading(OURS, REFUSES.name, failed=0)]

    assert {OURS: 0.05} == failed_shares(found, REFUSES.name)


@pytest.mark.e2e
def test_a_fault_strikes_the_worker() -> None:
    """Without a router before it, all that comes after is lost: 500 from the beginning, or cut in mid-stream."""
    wanted = Setting().or_else(rounds=1, seconds=0.4)
    with Processes() as processes:

        def struck(number: int) -> Reading:
            child, url = start_stub_worker(processes, "--event-ms", "10", name=f"stub-{number}")
            fault, sick = FAULTS[number], Sick(child, url)
            target = Target("direct", child, {"requests": url, "streams": url})
            return uvloop.run(one_fault(fault, sick, target, per_s=50.0, wanted=wanted, number=0))

        broken, died = struck(FAULTS.index(ANSWERS_500)), struck(FAULTS.index(DIES))

    assert {"status 500"} == set(broken.ends)
    assert broken.failing_s is not None
    assert {"cut", "not connected"} >= set(died.ends)
    assert died.ends["cut"] > 0
