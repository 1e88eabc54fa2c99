from benchmarks.peers.entrants import OURS
from benchmarks.peers.scenarios.connections import CASES, tell
from tests.benchmarks.measurements import measured
from tests.benchmarks.peers.scenarios.made_up import a_report


def test_there_is_a_table_for_each_number_of_connections() -> None:
    report = a_report()
    tell(report, {case: [measured(OURS, 1)] for case in CASES})

    assert [1, 32, 512] == [case.connections for case in CASES]
    assert ["1 connection:", "32 connections:", "512 connections:"] == [
        " ".join(table.title.split()[:2]) for table in report.tables
    ]
    assert report.is_met
