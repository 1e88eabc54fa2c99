"""Requests and streams per second of each router with 32 connections that never pause."""

from benchmarks.peers.entrants import ENTRANTS, NGINX, ROUND_ROBIN, SGLANG
from benchmarks.peers.field import CONNECTIONS, Setting, new_report, set_up_notes, taking_the_field
from benchmarks.peers.scenarios import closed_loop
from benchmarks.peers.scenarios.closed_loop import Case
from benchmarks.report import Bar, Report
from benchmarks.stub_worker import EVENTS_PER_STREAM

ROUNDS, SECONDS = 3, 2.0
REQUESTS = Case("Requests")
STREAMS = Case(f"Streams of {EVENTS_PER_STREAM} events", "streams")


def run(setting: Setting) -> Report:
    wanted = setting.or_else(rounds=ROUNDS, seconds=SECONDS, entrants=tuple(ENTRANTS))
    report = new_report("saturation", "Saturation: requests and streams per second on one core", wanted)
    with taking_the_field(wanted) as field:
        found = closed_loop.measure(field, wanted, [REQUESTS, STREAMS])
        missing = field.missing
    tell(report, found)
    report.notes += [
        f"{wanted.rounds} rounds of {wanted.seconds:g} s, {CONNECTIONS} connections, bodies of 1.2 kB, 64 different "
        "ones with a common system prompt, asked over and over: after the first time each router has seen them all.",
        "Every router runs the policy that looks at prompts; vllm-router also the one that looks at nothing.",
        *set_up_notes(wanted, workers=f"{closed_loop.WORKERS} stub workers in one process"),
        *closed_loop.remarks(found),
        *missing,
    ]
    return report


def tell(report: Report, found: closed_loop.Found) -> None:
    """Write the targets, and two tables for each kind of load."""
    requests, streams = found[REQUESTS], found[STREAMS]
    routers = [name for name, entrant in ENTRANTS.items() if entrant.is_router]
    best = closed_loop.best_of(streams, "streams", routers)
    report.bars += [
        *closed_loop.bar_against(requests, SGLANG, "requests", "requests per s", 1.2),
        *closed_loop.bar_by_processor_time(requests, SGLANG, "requests per processor second", 1.0),
        *closed_loop.bar_against(streams, NGINX, "streams", "streams per s", 1.4),
        *closed_loop.bar_against(streams, best, "streams", "streams per s, the best router", 1.0),
        Bar("failed answers of warmgate", closed_loop.errors_of_ours(found), "==", 0),
    ]
    for case, measurements in found.items():
        report.tables.append(closed_loop.table(case, measurements))
        beside = closed_loop.beside_ours(case, measurements)
        report.tables += [beside] if beside else []
    report.notes.append(f"Wanted beyond the bars: level with {ROUND_ROBIN}.")
    report.charts.append(closed_loop.chart(found))
    report.figures["measurements"] = {case.title: list(each) for case, each in found.items()}
