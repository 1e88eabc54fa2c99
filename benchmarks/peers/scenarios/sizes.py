"""Effect of the length of prompts: bodies of 1.2, 20 and 220 kB at saturation."""

from benchmarks.chat_bodies import SIZES
from benchmarks.peers.entrants import ENTRANTS
from benchmarks.peers.field import CONNECTIONS, Setting, new_report, set_up_notes, taking_the_field
from benchmarks.peers.scenarios import closed_loop
from benchmarks.peers.scenarios.closed_loop import Case
from benchmarks.report import Bar, Report

ROUNDS, SECONDS = 3, 2.0
CASES = [Case(f"Bodies of {size.name}", size=size) for size in SIZES]
LEAST = (1.3, 1.5)
"""Targets for all cases but the first: requests per second, of the best router."""


def run(setting: Setting) -> Report:
    wanted = setting.or_else(rounds=ROUNDS, seconds=SECONDS)
    report = new_report("sizes", "Long prompts: requests per second on one core by the size of the body", wanted)
    with taking_the_field(wanted) as field:
        found = closed_loop.measure(field, wanted, CASES)
        missing = field.missing
    tell(report, found)
    report.notes += [
        f"{wanted.rounds} rounds of {wanted.seconds:g} s, {CONNECTIONS} connections. Two thirds of a body are the "
        "system prompt that all 64 share.",
        *set_up_notes(wanted, workers=f"{closed_loop.WORKERS} stub workers in one process"),
        *closed_loop.remarks(found),
        *missing,
    ]
    return report


def tell(report: Report, found: closed_loop.Found) -> None:
    """Write a table for each prompt size, and the targets for the larger ones."""
    routers = [name for name, entrant in ENTRANTS.items() if entrant.is_router]
    for case, least in zip(CASES[1:], LEAST, strict=True):
        best = closed_loop.best_of(found[case], "requests", routers)
        what = f"requests per s of {case.size.name}, the best router"
        report.bars += closed_loop.bar_against(found[case], best, "requests", what, least)
    report.bars.append(Bar("failed answers of warmgate", closed_loop.errors_of_ours(found), "==", 0))
    report.tables += [closed_loop.table(case, measurements) for case, measurements in found.items()]
    report.charts.append(closed_loop.chart(found))
    report.figures["measurements"] = {case.title: list(each) for case, each in found.items()}
