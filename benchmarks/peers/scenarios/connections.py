"""Effect of the number of connections: 1, 32 and 512 connections that never pause."""

from benchmarks.peers.field import Setting, new_report, set_up_notes, taking_the_field
from benchmarks.peers.scenarios import closed_loop
from benchmarks.peers.scenarios.closed_loop import Case
from benchmarks.report import Bar, Report

ROUNDS, SECONDS = 3, 2.0
CASES = [Case(f"{count} connection{'s' if count > 1 else ''}", connections=count) for count in (1, 32, 512)]


def run(setting: Setting) -> Report:
    wanted = setting.or_else(rounds=ROUNDS, seconds=SECONDS)
    report = new_report("connections", "Connections: requests per second on one core by their number", wanted)
    with taking_the_field(wanted) as field:
        found = closed_loop.measure(field, wanted, CASES)
        missing = field.missing
    tell(report, found)
    report.notes += [
        f"{wanted.rounds} rounds of {wanted.seconds:g} s, bodies of 1.2 kB.",
        *set_up_notes(wanted, workers=f"{closed_loop.WORKERS} stub workers in one process"),
        *closed_loop.remarks(found),
        *missing,
    ]
    return report


def tell(report: Report, found: closed_loop.Found) -> None:
    """Write a table for each number of connections, and the target that no request fails."""
    report.bars.append(Bar("failed answers of warmgate", closed_loop.errors_of_ours(found), "==", 0))
    report.tables += [closed_loop.table(case, measurements) for case, measurements in found.items()]
    report.charts.append(closed_loop.chart(found))
    report.figures["measurements"] = {case.title: list(each) for case, each in found.items()}
