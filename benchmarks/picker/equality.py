"""`python -m benchmarks.picker.equality`: does routing through Envoy and the picker equal that of the proxy?

Both get the same recorded conversations (the slice `tau`) at the same times, in front of the same simulated workers
with cold caches. A round measures the proxy, the picker, and the proxy again, so that a machine whose speed changes
favors neither. The picker is compared with the mean of both measurements of the proxy, and their difference shows what
chance alone does. Times of sessions differ from round to round. There are as many rounds as the intervals need.

Exit status: 0 if mean TTFT and hit rate of the picker are at most 5 % worse or better, and 95 % of such runs would find
them within 5 % of these figures; 1 if not; 2 if the benchmark could not run.
"""

import argparse
import math
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
from benchmarks.picker.ratios import Ratio
from benchmarks.picker.rig import envoy_version, start_envoy
from benchmarks.processes import Child, ChildFailedError, Processes, free_port, start_gateway
from benchmarks.report import Bar, Cell, Circumstances, Report, Spread, Table, argument_parser, conclude
from benchmarks.shipped import Shipped, build
from tests.picker import environment
from tests.picker.configuration import Pool, configuration

CUT = "tau"
STRATEGY = "kv_aware"
LOAD = 6.0
"""Load below saturation, above which a queue makes small differences large. Far below, the time that Envoy takes would
be a large part of TTFT.
"""
MAX_DIFFERENCE = 0.05
PRECISION = 0.04
"""Half of an interval, as a share of the figure, at which no further round is needed."""
VALUES: Sequence[Callable[[Outcome], float]] = (
    lambda outcome: 100 * outcome.hit_rate,
    lambda outcome: outcome.ttft_mean_s,
    lambda outcome: outcome.ttft_p50_s,
    lambda outcome: outcome.ttft_p90_s,
    lambda outcome: outcome.ttft_p99_s,
    lambda outcome: outcome.imbalance,
    lambda outcome: outcome.late_p99_s,
    lambda outcome: outcome.effort.cores,
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


@dataclass(frozen=True, slots=True)
class Round:
    """Measurements of one round, in their order."""

    before: Outcome
    picker: Outcome
    after: Outcome

    def of_picker(self, value: Callable[[Outcome], float]) -> float:
        """Return *value* of the picker, divided by its mean of both measurements of the proxy."""
        return value(self.picker) / math.sqrt(value(self.before) * value(self.after))

    def of_proxy(self, value: Callable[[Outcome], float]) -> float:
        """Return *value* of the second measurement of the proxy, divided by that of the first one."""
        return value(self.after) / value(self.before)


def ttft_s(outcome: Outcome) -> float:
    return outcome.ttft_mean_s


def hit_rate(outcome: Outcome) -> float:
    return outcome.hit_rate


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
    rounds: list[Round] = []
    while needs_more(rounds, least=options.rounds, most=options.max_rounds):
        trial = trial_of(options, seed=options.seed + len(rounds))
        outcomes = [measure(trial, each, load=options.load) for each in (proxy, picker, proxy)]
        rounds.append(Round(*outcomes))
    report = Report("picker_equality", "Routing of the picker and of the proxy", circumstances)
    fill(report, rounds, load=options.load)
    return report


def needs_more(rounds: Sequence[Round], *, least: int, most: int) -> bool:
    """Return whether another round is needed after *rounds*, of which there are *least* to *most*.

    Only the width of the intervals decides, and never the figures, so that a run does not end when it suits.
    """
    if len(rounds) < least:
        return True
    ratios = [Ratio.of(each.of_picker(value) for each in rounds) for value in (ttft_s, hit_rate)]
    return len(rounds) < most and any(ratio.uncertainty > PRECISION for ratio in ratios)


def trial_of(options: argparse.Namespace, *, seed: int) -> Trial:
    """Return the requests of one round."""
    cut = SLICES[CUT]
    rates = cut.rates
    workers = WorkerOptions(4, rates.blocks, rates.prefill_tokens_per_s, rates.tpot_ms, "fifo", options.speed)
    return Trial(cut.sessions(Slicing(options.size, cut.most_turns, cut.shrink, seed)), workers, cut.shrink)


def fill(report: Report, rounds: Sequence[Round], *, load: float) -> None:
    """Write targets and tables into *report*."""
    ttft, hit = (Ratio.of(each.of_picker(value) for each in rounds) for value in (ttft_s, hit_rate))
    outcomes = [outcome for each in rounds for outcome in (each.before, each.picker, each.after)]
    report.bars += [
        Bar("mean TTFT of the picker, difference from the proxy", abs(ttft.mean - 1), "<=", MAX_DIFFERENCE),
        Bar("its uncertainty (95 %)", ttft.uncertainty, "<=", MAX_DIFFERENCE),
        Bar("hit rate of the picker, difference from the proxy", abs(hit.mean - 1), "<=", MAX_DIFFERENCE),
        Bar("its uncertainty (95 %)", hit.uncertainty, "<=", MAX_DIFFERENCE),
        Bar("failed requests", sum(sum(each.failures.values()) for each in outcomes), "==", 0),
    ]
    rows: list[Sequence[Cell | Spread]] = [
        (name, each[0].requests, *(Spread.of(map(value, each)) for value in VALUES))
        for name, each in (
            (rounds[0].before.router, [each.before for each in rounds]),
            (rounds[0].picker.router, [each.picker for each in rounds]),
            (f"{rounds[0].after.router}, again", [each.after for each in rounds]),
        )
    ]
    columns = ("", "requests", "hit rate, %", "TTFT mean s", "p50 s", "p90 s", "p99 s", "imbalance")
    again_ttft, again_hit = (Ratio.of(each.of_proxy(value) for each in rounds) for value in (ttft_s, hit_rate))
    report.tables += [
        Table(
            f"Load {load:g}: median (lowest – highest) of the rounds",
            (*columns, "sent late, p99 s", "busy cores"),
            rows,
        ),
        Table(
            f"Ratios of the same round: mean of {len(rounds)} rounds, with its interval of 95 %",
            ("", "picker, of the proxy", "proxy again, of the proxy"),
            [("TTFT mean", str(ttft), str(again_ttft)), ("hit rate", str(hit), str(again_hit))],
        ),
    ]
    report.notes += [
        "Times are in seconds of the workers, from the time at which a request is due. The times of the picker include "
        "those of Envoy.",
        "Two measurements of the proxy differ as well: real time decides which of two requests is first, a turn of a "
        "session follows the answer to the previous one, and one other choice changes all later ones. So one round "
        "says nothing about 5 %.",
    ]
    report.figures["rounds"] = list(rounds)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("picker.equality", __doc__)
    parser.add_argument("--rounds", type=int, default=4, help="minimum number of rounds")
    parser.add_argument("--max-rounds", type=int, default=12)
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
