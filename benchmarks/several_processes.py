"""Requests per second of one gateway with several processes and with one, and the exactness of its limits.

The processes may use all cores, and so does the load. On a machine with two cores, the load takes part of what the
processes could use, so the ratio per processor second belongs to the ratio of the rates.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import os
import random
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from benchmarks.bench import KEYS_AND_LIMITS, SECRET, Bench, Measurement, Target, check_answers, ratios, two_cores
from benchmarks.chat_bodies import PATH, PROMPTS, bodies
from benchmarks.load_tools import install_tools, tool_versions
from benchmarks.overhead import beside, load_table
from benchmarks.processes import ChildFailedError, Processes, pinned
from benchmarks.report import Bar, Circumstances, Report, argument_parser, conclude
from benchmarks.shipped import Shipped, build

ALONE = "one process without a supervisor"
ONE = "--processes 1"
TWO = "--processes 2"
MIN_RATE, MIN_PER_PROCESSOR = 1.8, 0.9
MAX_DIFFERENCE = 0.01
"""Maximum difference of the tokens that a limit admitted from the limit."""
WARM_UP_S = 2.0
LIMIT = 2_000_000
"""Tokens per day that the test of the limit admits. Requests in flight reserve less than 1 % of them."""
LIMIT_S = 10.0
PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "msgspec")


def main() -> int:
    arguments = parse_arguments()
    faults = [ChildFailedError]
    return conclude("several_processes", lambda: run(arguments), results=arguments.results, cannot_run=faults)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("several_processes", __doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=4.0, help="of load per gateway and round")
    parser.add_argument("--connections", type=int, default=64)
    return parser.parse_args(arguments)


def run(arguments: argparse.Namespace) -> Report:
    """Prepare the machine, run the measurements, and return the report."""
    proxy_core, load_core = two_cores()
    install_tools()
    circumstances = Circumstances.observe(seed=arguments.seed, packages=PACKAGES, tools=tool_versions())
    report = Report("several_processes", "One gateway with several processes", circumstances)
    report.notes.append(
        f"{arguments.rounds} rounds of {arguments.seconds:g} s, {arguments.connections} connections, {PROMPTS} prompts "
        f"of 1.2 kB. Gateways as the image holds them, with a key, five limits, prefix_aware, metrics and request log. "
        f"They may use all {len(os.sched_getaffinity(0))} cores; stub worker and wrk share one of these. Processor "
        "time includes the supervisor. All have their keys and their ledger in SQLite."
    )
    shipped = build()
    with Processes() as processes, pinned({load_core}):
        bench = Bench(
            processes,
            proxy_core=proxy_core,
            load_core=load_core,
            connections=arguments.connections,
            seed=arguments.seed,
        )
        stub = bench.start_stub()
        alone = start(bench, stub, shipped, ALONE, settings={"store": {"url": bench.store_url()}})
        targets = [alone, start(bench, stub, shipped, ONE), start(bench, stub, shipped, TWO)]
        found = measure(bench, stub, targets, rounds=arguments.rounds, seconds=arguments.seconds)
        for target in targets:
            target.child.stop()
        fill(report, found)
        report.bars.append(
            Bar(
                "tokens that two processes admitted: difference from the limit",
                limit_error(bench, stub, shipped),
                "<=",
                MAX_DIFFERENCE,
            )
        )
    return report


def start(
    bench: Bench,
    stub: Target,
    shipped: Shipped,
    name: str,
    *,
    settings: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] = KEYS_AND_LIMITS,
) -> Target:
    """Start the gateway *name*, whose name contains its options, on all cores."""
    options = name.split() if name.startswith("--") else []
    return bench.start_gateway(
        stub.urls["requests"],
        name=name,
        command=[*shipped.command, *options],
        environment=shipped.environment,
        settings={**limits, **(settings or {})},
        cores=range(os.cpu_count() or 1),
    )


def measure(bench: Bench, stub: Target, targets: Sequence[Target], *, rounds: int, seconds: float) -> list[Measurement]:
    """Measure *targets* in alternating rounds."""
    for target in targets:
        check_answers(target)
        bench.measure(target, stub, "requests", round_number=-1, seconds=WARM_UP_S)
    return [
        bench.measure(target, stub, "requests", round_number=number, seconds=seconds)
        for number in range(rounds)
        for target in (targets if number % 2 else targets[::-1])
    ]


def limit_error(bench: Bench, stub: Target, shipped: Shipped) -> float:
    """Return the difference of the tokens that two processes admit from the limit of a team, as a share of it."""
    key = {"id": "benchmark", "secret": SECRET}
    teams = {"teams": [{"name": "benchmark", "limits": {"tokens_per_day": LIMIT}, "keys": [key]}]}
    target = start(bench, stub, shipped, TWO, limits=teams)
    body = bodies("requests", random.Random(0))[0]
    headers = {"content-type": "application/json", "authorization": f"Bearer {SECRET}"}
    answer = httpx.post(target.urls["requests"] + PATH, content=body, headers=headers, trust_env=False)
    tokens: int = answer.raise_for_status().json()["usage"]["total_tokens"]
    bench.measure(target, stub, "requests", round_number=0, seconds=LIMIT_S)
    return abs(answered(target) * tokens - LIMIT) / LIMIT


def answered(target: Target) -> int:
    """Return the number of requests that the gateway *target* has answered with status 200, by its metrics."""
    text = httpx.get(f"{target.urls['requests']}/metrics", trust_env=False).raise_for_status().text
    lines = [line for line in text.splitlines() if line.startswith("warmgate_requests_total{")]
    return round(sum(float(line.rsplit(" ", 1)[1]) for line in lines if 'status="200"' in line))


def fill(report: Report, found: Sequence[Measurement]) -> None:
    """Write targets and tables from the measurements."""
    report.bars += [
        Bar("requests per s of two processes, of one", ratios(found, TWO, "requests", to=ALONE).median, ">=", MIN_RATE),
        Bar(
            "requests per processor second of two processes, of one",
            beside(found, TWO, ALONE, "requests").median,
            ">=",
            MIN_PER_PROCESSOR,
        ),
        Bar("failed answers", sum(each.errors for each in found), "==", 0),
    ]
    report.tables.append(load_table(found, [ALONE, ONE, TWO], "requests", stub=""))
    report.figures["measurements"] = list(found)


if __name__ == "__main__":
    sys.exit(main())
