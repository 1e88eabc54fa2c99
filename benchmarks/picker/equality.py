"""`python -m benchmarks.picker.equality`: does routing through Envoy and the picker equal that of the proxy?

Both get the same recorded conversations (the slice `tau`) at the same times, in front of the same simulated workers
with cold caches. Times of sessions differ from round to round. A round compares the two at the same times.

Exit status: 0 if mean TTFT and hit rate of the picker are at most 5 % worse or better, 1 if not, 2 if it could not run.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.peers.routing.command import measure
from benchmarks.peers.routing.entrants import Ours, Pace, settings_of, tokenizer_folder
from benchmarks.peers.routing.outcome import Outcome
from benchmarks.peers.routing.slices import SLICES, Slicing
from benchmarks.peers.routing.trial import Trial
from benchmarks.peers.routing.workers import WorkerOptions, Workers
from benchmarks.picker.rig import envoy_version, start_envoy
from benchmarks.processes import Child, ChildFailedError, Processes, free_port, start_gateway
from benchmarks.report import Bar, Cell, Circumstances, Report, Spread, Table, argument_parser, conclude
from benchmarks.shipped import Shipped, build
from tests.picker import environment
from tests.picker.configuration import Pool, configuration

CUT = "tau"
STRATEGY = "kv_aware"
LOAD = 8.0
"""Load below saturation, above which a queue makes small differences large. Far below, the time that Envoy takes would
be a large part of TTFT.
"""
MAX_DIFFERENCE = 0.05
VALUES: Sequence[Callable[[Outcome], float]] = (
    lambda outcome: 100 * outcome.hit_rate,
    lambda outcome: outcome.ttft_mean_s,
    lambda outcome: outcome.ttft_p50_s,
    lambda outcome: outcome.ttft_p90_s,
    lambda outcome: outcome.ttft_p99_s,
    lambda outcome: outcome.imbalance,
)
"""Figures of the table, in the order of its columns."""
PACKAGES = ("grpcio", "uvloop", "numpy", "msgspec", "tokenizers", "pyzmq")


@dataclass(frozen=True, slots=True)
class BehindEnvoy:
    """Warmgate as the endpoint picker of an Envoy. Implements `benchmarks.peers.routing.entrants.Entrant`."""

    shipped: Shipped | None = None
    is_ours: bool = True

    @property
    def name(self) -> str:
        return f"warmgate picker, {STRATEGY}"

    @property
    def pins(self) -> Sequence[str]:
        return ()

    def prepare(self) -> None:
        environment.install()

    def start(self, processes: Processes, workers: Workers, pace: Pace) -> tuple[Child, str]:
        """Start the picker and Envoy (see `Entrant.start`). Return the process of the picker, and the URL of Envoy."""
        settings = settings_of(STRATEGY, workers.urls, tokenizer_folder(processes), pace)
        port, picker_port = free_port(), free_port()
        settings["server"] |= {"open_mode": "network"}  # a request behind Envoy comes from its caller, not from Envoy
        settings["picker"] = {"listen": f"127.0.0.1:{picker_port}"}
        shipped = self.shipped
        child, _ = start_gateway(
            processes,
            settings,
            command=(sys.executable, *([] if shipped is None else ["-P"]), "-m", "gateway", "picker"),
            environment=None if shipped is None else shipped.environment,
        )
        endpoints = [url.removeprefix("http://") for url in workers.urls]
        envoy = start_envoy(
            processes, configuration([Pool(f"127.0.0.1:{picker_port}", endpoints)], port=port), name="envoy"
        )
        envoy.wait_for_port(port)
        return child, f"http://127.0.0.1:{port}"


def run(options: argparse.Namespace) -> Report:
    """Run all rounds, and return the report."""
    shipped = None if options.sources else build()
    proxy, picker = Ours(STRATEGY, shipped), BehindEnvoy(shipped)
    try:
        picker.prepare()
    except subprocess.CalledProcessError as error:
        raise ChildFailedError(f"Envoy could not be installed: {error}") from error
    with Processes() as processes:
        tools = {"Envoy": envoy_version(processes)}
    circumstances = Circumstances.observe(seed=options.seed, packages=PACKAGES, tools=tools)
    pairs = []
    for number in range(options.rounds):
        trial = trial_of(options, seed=options.seed + number)
        pairs.append((measure(trial, proxy, load=options.load), measure(trial, picker, load=options.load)))
    report = Report("picker_equality", "Routing of the picker and of the proxy", circumstances)
    fill(report, pairs, load=options.load)
    return report


def trial_of(options: argparse.Namespace, *, seed: int) -> Trial:
    """Return the requests of one round."""
    cut = SLICES[CUT]
    rates = cut.rates
    workers = WorkerOptions(4, rates.blocks, rates.prefill_tokens_per_s, rates.tpot_ms, "fifo", options.speed)
    return Trial(cut.sessions(Slicing(options.size, cut.most_turns, cut.shrink, seed)), workers, cut.shrink)


def fill(report: Report, pairs: Sequence[tuple[Outcome, Outcome]], *, load: float) -> None:
    """Write targets and tables into *report*. Each pair has the outcomes of the proxy and of the picker."""
    ttft = Spread.of(picker.ttft_mean_s / proxy.ttft_mean_s for proxy, picker in pairs)
    hit = Spread.of(picker.hit_rate / proxy.hit_rate for proxy, picker in pairs)
    report.bars += [
        Bar("mean TTFT of the picker, difference from the proxy", abs(ttft.median - 1), "<=", MAX_DIFFERENCE),
        Bar("hit rate of the picker, difference from the proxy", abs(hit.median - 1), "<=", MAX_DIFFERENCE),
        Bar("failed requests", sum(sum(each.failures.values()) for pair in pairs for each in pair), "==", 0),
    ]
    rows: list[Sequence[Cell | Spread]] = [
        (
            outcome.router,
            outcome.requests,
            *(Spread.of(value(pair[place]) for pair in pairs) for value in VALUES),
        )
        for place, outcome in enumerate(pairs[0])
    ]
    columns = ("", "requests", "hit rate, %", "TTFT mean s", "p50 s", "p90 s", "p99 s", "imbalance")
    report.tables += [
        Table(f"Load {load:g}: median (lowest – highest) of the rounds", columns, rows),
        Table("Picker, of the proxy in the same round", ("", "ratio"), [("TTFT mean", ttft), ("hit rate", hit)]),
    ]
    report.notes.append(
        "Times are in seconds of the workers, from the time at which a request is due. The times of the picker include "
        "those of Envoy. Two runs of the proxy differ as well, because real time decides which request is first."
    )
    report.figures["pairs"] = [{"proxy": proxy, "picker": picker} for proxy, picker in pairs]


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("picker.equality", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load", type=float, default=LOAD, help="times as fast as the slice's own times")
    parser.add_argument("--size", type=int, default=SLICES[CUT].size, help="conversations of the trace")
    parser.add_argument("--speed", type=float, default=1.0, help="seconds of the workers in one of the clock")
    parser.add_argument("--sources", action="store_true", help="ours from the checkout, without the compiled core")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse_arguments()
    return conclude(
        "picker.equality", lambda: run(options), results=options.results, cannot_run=[ChildFailedError, ValueError]
    )


if __name__ == "__main__":
    sys.exit(main())
