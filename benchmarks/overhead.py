"""Cost of the gateway per request, compared with nginx in front of the same stub worker in the same run.

The proxy under test has its own core, and the stub worker and wrk share another core. Rounds of the targets alternate,
and each ratio compares measurements of the same round, so that a slow phase of the machine affects both.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bench import (
    BUSY_CORE,
    KEYS_AND_LIMITS,
    RECEIPTS,
    RECEIPTS_AND_SHAPES,
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
from benchmarks.processes import ChildFailedError, Processes, add_gateway_option, pinned
from benchmarks.report import Bar, Circumstances, Report, Spread, Table, argument_parser, conclude
from benchmarks.shipped import build
from benchmarks.stub_worker import EVENTS_PER_STREAM

WARM_UP_S = 1.0
MIN_SHARE_WITH_KEYS = 0.9
MIN_NGINX_SHARE_OF_RATE = {"requests": 0.15, "streams": 0.9}  # SGLang's Rust gateway: 0.17 and 0.47
WITH_KEYS = ", with a key and five limits"
WITH_RECEIPTS = ", with receipts"
WITH_RECORDS = ", with receipts and request shapes"
MIN_SHARE_WITH_RECORDS = 0.99
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
        is_proxy = target != stub
        rows.append(
            [
                target,
                Spread.of(m.per_s for m in of_target),
                ratios(found, target, load) if is_proxy else None,
                Spread.of(m.p50_ms for m in of_target),
                Spread.of(m.p99_ms for m in of_target),
                Spread.of(m.target_cpu for m in of_target),
                ratios_per_cpu(found, target, load) if is_proxy else None,
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
    for load in _loads(found):
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
    report = Report("overhead", "The gateway against nginx, one core each", circumstances)
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
    return report


def measure_all(bench: Bench, arguments: argparse.Namespace, report: Report) -> None:
    """Start all programs, measure all rounds, and add the results to *report*."""
    stub = bench.start_stub()
    worker_url = stub.urls["requests"]
    targets = [stub, bench.start_nginx(worker_url), *_gateways(bench, worker_url, arguments, report)]
    is_partial = arguments.keys_only or arguments.records_only
    loads: tuple[Load, ...] = ("requests",) if is_partial else LOADS
    for target in targets:
        check_answers(target)
        for load in loads:
            bench.measure(target, stub, load, round_number=-1, seconds=WARM_UP_S)

    found: list[Measurement] = []
    for number in range(arguments.rounds):
        for load in loads:
            for target in targets:
                found.append(bench.measure(target, stub, load, round_number=number, seconds=arguments.seconds))
                latest = found[-1]
                print(f"round {number + 1} {load}: {target.name}: {latest.per_s:,.0f}/s", file=sys.stderr, flush=True)
    arrivals = [] if is_partial else [bench.watch_arrival(target, stub) for target in targets]
    fill(report, found, arrivals, stub=stub.name, judged=targets[2].name)


def fill(report: Report, found: Sequence[Measurement], arrivals: Sequence[Arrival], *, stub: str, judged: str) -> None:
    """Write targets, tables and notes from the measurements. The targets apply to *judged*."""
    names = list(dict.fromkeys(m.target for m in found))
    loads = _loads(found)
    for load in loads:
        value = ratios(found, judged, load).median
        report.bars.append(Bar(f"{judged}: {load} per s, share of nginx's", value, ">=", MIN_NGINX_SHARE_OF_RATE[load]))
    with_keys = f"{judged}{WITH_KEYS}"
    if with_keys in names:
        value = beside(found, with_keys, judged, "requests").median
        report.bars.append(
            Bar("requests per s with a key and five limits, of without", value, ">=", MIN_SHARE_WITH_KEYS)
        )
    for name in (WITH_RECEIPTS, WITH_RECORDS):
        if f"{judged}{name}" in names:
            value = beside(found, f"{judged}{name}", judged, "requests").median
            what = f"requests per processor second{name}, of without"
            report.bars.append(Bar(what, value, ">=", MIN_SHARE_WITH_RECORDS))
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
    kinds: dict[str, Mapping[str, Any]] = {"": {}}
    if not arguments.records_only:
        kinds[WITH_KEYS] = {**KEYS_AND_LIMITS, "store": {"url": bench.store_url()}}
    if not arguments.keys_only:
        kinds |= {WITH_RECEIPTS: RECEIPTS, WITH_RECORDS: RECEIPTS_AND_SHAPES}
    return kinds


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("overhead", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of load per target, kind of load and round")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument(
        "--keys-only",
        action="store_true",
        help="just what keys and limits cost: the gateway as it is shipped, without and with them, by requests",
    )
    parser.add_argument(
        "--records-only",
        action="store_true",
        help="just what receipts and request shapes cost: the gateway as it is shipped, without and with them, by "
        "requests",
    )
    add_gateway_option(parser)
    return parser.parse_args(arguments)


def main() -> int:
    arguments = parse_arguments()
    return conclude("overhead", lambda: run(arguments), results=arguments.results, cannot_run=[ChildFailedError])


if __name__ == "__main__":
    sys.exit(main())
