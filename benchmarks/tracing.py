"""Cost of tracing no requests, unsampled requests, a tenth of the requests, and all requests, in turn in the same run.

The gateway, including the thread that sends spans, has its own core. The stub worker, wrk and a receiver that stores
nothing share another core. The benchmark compares answers per processor second of the gateway.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import sys
import timeit
from collections.abc import Sequence
from typing import Any

from benchmarks.bench import BUSY_CORE, Bench, Measurement, check_answers, two_cores
from benchmarks.chat_bodies import LOADS
from benchmarks.load_tools import install_tools, tool_versions
from benchmarks.overhead import beside
from benchmarks.processes import ChildFailedError, Processes, add_gateway_option, pinned
from benchmarks.report import Bar, Circumstances, Report, Spread, Table, argument_parser, conclude
from gateway.proxy.exchange import Exchange

WARM_UP_S = 1.0
OFF = "nothing is traced"
RATIOS = {"decided against": 0.0, "a tenth is traced": 0.1, "all are traced": 1.0}
MIN_SHARE = {"requests": 0.85, "streams": 0.95}
"""Minimum answers per processor second with a tenth of the requests traced, as a share of the answers without traces.
"""
LOOKS = 17
"""Number of checks whether a trace is None, for a request that one worker answers."""
PACKAGES = ("fastapi", "uvicorn", "uvloop", "httpx", "protobuf", "opentelemetry-proto")


def look_ns() -> float:
    """Return the nanoseconds of one check whether a trace is None in interpreted code, the best of several runs."""
    exchange = Exchange(b"r-1", "/v1/chat/completions", 0.0)
    count = 200_000
    return min(timeit.repeat(lambda: exchange.enter("parse"), number=count, repeat=5)) / count * 1e9


def run(arguments: argparse.Namespace) -> Report:
    proxy_core, load_core = two_cores()
    install_tools()
    circumstances = Circumstances.observe(seed=arguments.seed, packages=PACKAGES, tools=tool_versions())
    report = Report("tracing", "What traces cost", circumstances)
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
    stub = bench.start_stub()
    sink = bench.processes.start("sink", [sys.executable, "-m", "benchmarks.trace_sink"], cores={bench.load_core})
    endpoint = sink.wait_for_ready_line()
    groups: dict[str, dict[str, Any]] = {OFF: {}} | {
        name: {"endpoint": endpoint, "ratio": ratio} for name, ratio in RATIOS.items()
    }
    targets = [
        bench.start_gateway(
            stub.urls["requests"],
            name=name,
            command=arguments.gateway,
            settings={"tracing": tracing},
        )
        for name, tracing in groups.items()
    ]
    for target in targets:
        check_answers(target)
        for load in LOADS:
            bench.measure(target, stub, load, round_number=-1, seconds=WARM_UP_S)
    found = [
        bench.measure(target, stub, load, round_number=number, seconds=arguments.seconds)
        for number in range(arguments.rounds)
        for load in LOADS
        for target in targets
    ]
    fill(report, found, look_ns())


def fill(report: Report, found: Sequence[Measurement], one_look_ns: float) -> None:
    """Write targets and tables from the measurements."""
    for load in LOADS:
        rows: list[list[str | int | float | Spread | None]] = []
        for name in (OFF, *RATIOS):
            own = [m for m in found if m.target == name and m.load == load]
            rows.append(
                [
                    name,
                    Spread.of(m.per_s / m.target_cpu for m in own),
                    beside(found, name, OFF, load),
                    Spread.of(m.p50_ms for m in own),
                    Spread.of(m.p99_ms for m in own),
                    sum(m.errors for m in own),
                ]
            )
        columns = ("", "per CPU s", "of untraced", "p50 ms", "p99 ms", "errors")
        report.tables.append(Table(f"{load.capitalize()}: median (lowest – highest) of the rounds", columns, rows))
        value = beside(found, "a tenth is traced", OFF, load).median
        report.bars.append(Bar(f"{load} per CPU s with a tenth traced, of untraced", value, ">=", MIN_SHARE[load]))
    report.bars.append(Bar("failed answers", sum(m.errors for m in found), "==", 0))
    report.notes.append(
        f"Where nothing is traced a request looks {LOOKS} times at a trace that is None; one look takes "
        f"{one_look_ns:.0f} ns in the interpreter, so all of them {LOOKS * one_look_ns / 1000:.1f} us."
    )
    noise = Spread.of(m.others_on_proxy_core for m in found).median
    if noise > 1 - BUSY_CORE:
        report.notes.append(
            f"The machine was not quiet: processes outside the benchmark took {noise:.0%} of the gateway's core "
            "(median of the rounds). Not figures for the record."
        )
    report.figures |= {"measurements": list(found), "look_ns": one_look_ns}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("tracing", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of load per gateway, kind of load and round")
    parser.add_argument("--connections", type=int, default=32)
    add_gateway_option(parser)
    return parser.parse_args(arguments)


def main() -> int:
    arguments = parse_arguments()
    return conclude("tracing", lambda: run(arguments), results=arguments.results, cannot_run=[ChildFailedError])


if __name__ == "__main__":
    sys.exit(main())
