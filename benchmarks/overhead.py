"""Cost of the gateway per request, compared with nginx in front of the same stub worker in the same run.

The proxy under test has its own core, and the stub worker and wrk share another core. Rounds of the targets alternate,
and each ratio compares measurements of the same round, so that a slow phase of the machine affects both.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bench import (
    ADMIN_SECRET,
    BUSY_CORE,
    CONSOLE,
    KEYS_AND_LIMITS,
    RECEIPTS,
    RECEIPTS_AND_SHAPES,
    WITHOUT_RECORDS,
    Arrival,
    Bench,
    Measurement,
    Target,
    check_answers,
    ratios,
    two_cores,
)
from benchmarks.chat_bodies import LOADS, PROMPTS, Load
from benchmarks.load_tools import install_tools, tool_versions
from benchmarks.open_pages import open_pages
from benchmarks.processes import ChildFailedError, Processes, add_gateway_option, pinned
from benchmarks.report import Bar, Circumstances, Report, Spread, Table, argument_parser, conclude
from benchmarks.shipped import build
from benchmarks.stub_worker import EVENTS_PER_STREAM

WARM_UP_S = 1.0
MIN_SHARE_WITH_KEYS = 0.95
MIN_NGINX_SHARE_OF_RATE = {"requests": 0.15, "streams": 0.9}  # SGLang's Rust gateway: 0.17 and 0.47
WITH_KEYS = ", with a key and five limits"
WITH_ADMIN = ", with an admin key"
WITH_RECEIPTS = ", with receipts"
WITH_RECORDS = ", with receipts and request shapes"
WITH_PAGES = ", with receipts, request shapes and two open pages of the console"
MIN_SHARES: Mapping[str, float] = {WITH_RECEIPTS: 0.99, WITH_RECORDS: 0.99, WITH_PAGES: 0.98}
"""Minimum shares of the requests per processor second of a gateway that records nothing."""
RECEIPTS_S = 900.0
"""Maximum seconds for the measurement of the memory of receipts."""
PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "numpy", "msgspec", "prometheus-client")


def beside(found: Sequence[Measurement], target: str, other: str, load: Load) -> Spread:
    """Return the answers of *target* per processor second, divided by those of *other* in the same round."""
    of_other = {m.round: m.per_s / m.target_cpu for m in found if m.target == other and m.load == load}
    return Spread.of(m.per_s / m.target_cpu / of_other[m.round] for m in found if m.target == target and m.load == load)


def ratios_per_cpu(found: Sequence[Measurement], target: str, load: Load) -> Spread:
    """Return the ratio of answers per processor second, which does not depend on the speed of the other core."""
    limit = {m.round: m.per_s / m.target_cpu for m in found if m.target == "nginx" and m.load == load}
    return Spread.of(m.per_s / m.target_cpu / limit[m.round] for m in found if m.target == target and m.load == load)


def load_table(found: Sequence[Measurement], targets: Sequence[str], load: Load, *, stub: str) -> Table:
    """Return a table with one line per target: rate, ratios to nginx, latency, and use of its core."""
    rows: list[list[str | int | float | Spread | None]] = []
    for target in targets:
        of_target = [m for m in found if m.target == target and m.load == load]
        is_compared = target != stub and any(m.target == "nginx" for m in found)
        rows.append(
            [
                target,
                Spread.of(m.per_s for m in of_target),
                ratios(found, target, load) if is_compared else None,
                Spread.of(m.p50_ms for m in of_target),
                Spread.of(m.p99_ms for m in of_target),
                Spread.of(m.target_cpu for m in of_target),
                ratios_per_cpu(found, target, load) if is_compared else None,
                sum(m.errors for m in of_target),
            ]
        )
    what = {
        "requests": "Non-streaming requests",
        "streams": f"Streams of {EVENTS_PER_STREAM} events",
    }[load]
    columns = ("", "per s", "of nginx", "p50 ms", "p99 ms", "share of its core", "of nginx, per CPU s", "errors")
    return Table(f"{what}: median (lowest – highest) of the rounds", columns, rows)


def limits_of_the_setup(found: Sequence[Measurement], *, stub: str) -> list[str]:
    """Return remarks about measurements that something other than the proxy limited."""
    on_proxy_core = Spread.of(m.others_on_proxy_core for m in found).median
    on_load_core = Spread.of(m.others_on_load_core for m in found).median
    if max(on_proxy_core, on_load_core) > 1 - BUSY_CORE:
        noise = f"{on_proxy_core:.0%} of the proxy's core and {on_load_core:.0%} of the other (medians of the rounds)"
        return [f"The machine was not quiet: processes outside the benchmark took {noise}. Not figures for the record."]
    notes = []
    for load in _loads([m for m in found if m.target == "nginx"]):
        nginx = [m for m in found if m.target == "nginx" and m.load == load]
        share = Spread.of(m.target_cpu for m in nginx).median
        rate = Spread.of(m.per_s for m in nginx).median
        direct = Spread.of(m.per_s for m in found if m.target == stub and m.load == load).median
        if share < BUSY_CORE:
            notes.append(
                f"{load.capitalize()}: nginx used {share:.0%} of its core, at {rate / direct:.0%} of the rate of the "
                f"stub worker without a proxy. The other core (stub worker and wrk) was the limit: nginx could do "
                f"more, and the ratio by rate flatters the gateway. The ratio per CPU second does not."
            )
    return notes


def run(arguments: argparse.Namespace) -> Report:
    """Prepare the machine, run the measurements, and return the report."""
    proxy_core, load_core = two_cores()
    install_tools()
    circumstances = Circumstances.observe(seed=arguments.seed, packages=PACKAGES, tools=tool_versions())
    name, title = ("records", "Cost of what the gateway records") if arguments.records_only else NAME_AND_TITLE
    report = Report(name, title, circumstances)
    report.notes.append(
        f"{arguments.rounds} rounds of {arguments.seconds:g} s, {arguments.connections} connections, "
        f"{PROMPTS} prompts of 1.2 kB with a common system prompt. One proxy at work on one core (the others "
        f"idle), stub worker and wrk on another. nginx: one process, upstream keep-alive, no access log, buffering "
        f"off for streams. Gateway: prefix_aware, metrics and request log on."
    )
    with Processes() as processes, pinned({load_core}):
        bench = Bench(
            processes,
            proxy_core=proxy_core,
            load_core=load_core,
            connections=arguments.connections,
            seed=arguments.seed,
        )
        measure_all(bench, arguments, report)
        if arguments.records_only:
            add_memory_of_receipts(processes, arguments, report)
    return report


NAME_AND_TITLE = "overhead", "The gateway against nginx, one core each"


def add_memory_of_receipts(processes: Processes, arguments: argparse.Namespace, report: Report) -> None:
    """Run `benchmarks.receipts`, and add its bars and tables to *report*."""
    results = processes.directory / "receipts"
    command = [sys.executable, "-m", "benchmarks.receipts", "--seed", str(arguments.seed), "--results", str(results)]
    child = processes.start("receipts", command)
    if child.process.wait(RECEIPTS_S) not in (0, 1):  # 1: a bar is missed
        raise ChildFailedError(f"benchmarks.receipts failed:\n{child.last_words()}")
    found = Report.read(results / "receipts.json")
    report.bars += found.bars
    report.tables += found.tables
    report.notes += found.notes


def measure_all(bench: Bench, arguments: argparse.Namespace, report: Report) -> None:
    """Start all programs, measure all rounds, and add the results to *report*."""
    stub = bench.start_stub()
    worker_url = stub.urls["requests"]
    gateways = _gateways(bench, worker_url, arguments, report)
    # The records are compared with each other, in shorter and more rounds.
    others = [] if arguments.records_only else [stub, bench.start_nginx(worker_url)]
    targets = [*others, *gateways]
    is_partial = arguments.keys_only or arguments.records_only
    loads: tuple[Load, ...] = ("requests",) if is_partial else LOADS
    for target in targets:
        check_answers(target)
        for load in loads:
            bench.measure(target, stub, load, round_number=-1, seconds=WARM_UP_S)

    found: list[Measurement] = []
    with contextlib.ExitStack() as stack:
        for target in targets:
            if target.name.endswith(WITH_PAGES):
                stack.enter_context(open_pages(target.urls["requests"], ADMIN_SECRET))
        for number in range(arguments.rounds):
            for load in loads:
                for target in targets:
                    found.append(bench.measure(target, stub, load, round_number=number, seconds=arguments.seconds))
                    rate = f"{found[-1].per_s:,.0f}/s"
                    print(f"round {number + 1} {load}: {target.name}: {rate}", file=sys.stderr, flush=True)
    arrivals = [] if is_partial else [bench.watch_arrival(target, stub) for target in targets]
    fill(report, found, arrivals, stub=stub.name, judged=gateways[0].name.removesuffix(WITH_ADMIN))


def fill(report: Report, found: Sequence[Measurement], arrivals: Sequence[Arrival], *, stub: str, judged: str) -> None:
    """Write targets, tables and notes from the measurements. The targets apply to *judged*."""
    names = list(dict.fromkeys(m.target for m in found))
    loads = _loads(found)
    for load in loads if "nginx" in names else ():
        value = ratios(found, judged, load).median
        report.bars.append(Bar(f"{judged}: {load} per s, share of nginx's", value, ">=", MIN_NGINX_SHARE_OF_RATE[load]))
    with_keys = f"{judged}{WITH_KEYS}"
    if with_keys in names:
        value = beside(found, with_keys, judged, "requests").median
        report.bars.append(
            Bar("requests per s with a key and five limits, of without", value, ">=", MIN_SHARE_WITH_KEYS)
        )
    for name, least in MIN_SHARES.items():
        if f"{judged}{name}" in names:
            value = beside(found, f"{judged}{name}", f"{judged}{WITH_ADMIN}", "requests").median
            report.bars.append(Bar(f"requests per processor second{name}, of without", value, ">=", least))
    report.bars.append(Bar("failed answers", sum(m.errors for m in found), "==", 0))
    report.tables += [load_table(found, names, load, stub=stub) for load in loads]
    rows = [(arrival.target, arrival.packets_idle, arrival.packets_loaded) for arrival in arrivals]
    if rows:
        report.tables.append(Table("TCP packets per stream as the client gets it", ("", "idle", "under load"), rows))
    report.notes += limits_of_the_setup(found, stub=stub)
    report.figures |= {"measurements": list(found), "arrivals": list(arrivals)}


def _loads(found: Sequence[Measurement]) -> list[Load]:
    """Return the measured loads in their order."""
    return list(dict.fromkeys(m.load for m in found))


def _gateways(bench: Bench, worker_url: str, arguments: argparse.Namespace, report: Report) -> list[Target]:
    """Start the compiled gateway and the gateway from the sources. The compiled one, which is judged, must start."""
    gateways: list[Target] = []
    try:
        shipped = build()
    except ChildFailedError as error:
        print(error, file=sys.stderr)
        report.notes.append("The core could not be compiled here: what was measured is slower than what is shipped.")
    else:
        for name, settings in _kinds(bench, arguments).items():
            gateways.append(
                bench.start_gateway(
                    worker_url,
                    name=f"gateway (uvicorn){name}",
                    command=shipped.command,
                    environment=shipped.environment,
                    settings=settings,
                )
            )
        report.notes.append(
            "The gateway is the wheel that the image holds, its core compiled by mypyc; beside it the gateway from the "
            "sources, as `make run` starts it."
        )
    if gateways and (arguments.keys_only or arguments.records_only):
        return gateways
    from_sources = "gateway from the sources (uvicorn)"
    gateways.append(bench.start_gateway(worker_url, name=from_sources, command=arguments.gateway))
    return gateways


def _kinds(bench: Bench, arguments: argparse.Namespace) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings of the compiled gateways, by the ending of their names. The first one is judged."""
    kinds: dict[str, Mapping[str, Any]] = {}
    if not arguments.records_only:
        kinds |= {"": {}, WITH_KEYS: {**KEYS_AND_LIMITS, "store": {"url": bench.store_url()}}}
    if not arguments.keys_only:
        kinds |= {WITH_ADMIN: WITHOUT_RECORDS, WITH_RECEIPTS: RECEIPTS, WITH_RECORDS: RECEIPTS_AND_SHAPES}
        kinds[WITH_PAGES] = CONSOLE
    return kinds


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("overhead", __doc__)
    parser.add_argument("--rounds", type=int, help="(default: 5, or 40 with --records-only)")
    parser.add_argument(
        "--seconds",
        type=float,
        help="of load per target, kind of load and round (default: 5, or 2 with --records-only)",
    )
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument(
        "--keys-only",
        action="store_true",
        help="just what keys and limits cost: the gateway as it is shipped, without and with them, by requests",
    )
    parser.add_argument(
        "--records-only",
        action="store_true",
        help="just what receipts, request shapes and open pages of the console cost: the gateway as it is shipped, "
        "without and with them, by requests; also the memory of receipts. Writes records.md",
    )
    add_gateway_option(parser)
    found = parser.parse_args(arguments)
    found.rounds = found.rounds or (40 if found.records_only else 5)
    found.seconds = found.seconds or (2.0 if found.records_only else 5.0)
    return found


def main() -> int:
    arguments = parse_arguments()
    return conclude("overhead", lambda: run(arguments), results=arguments.results, cannot_run=[ChildFailedError])


if __name__ == "__main__":
    sys.exit(main())
