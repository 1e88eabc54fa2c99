"""Gain of the strategies on recorded traffic, in virtual time: the production router before simulated engines.

An open-loop trace is replayed at its own times, *speed* times as fast, or as a Poisson process. A closed-loop trace is
lived by a number of users, each of whom asks again some time after the last answer. The first tenth of the requests
warms the caches up and is not counted. TTFT counts from arrival.

Exit status: 0 the bars are met, 1 one is missed, 2 a trace does not fit the setting.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence

from benchmarks.replay.bench import Bench
from benchmarks.replay.entrant import ENTRANTS
from benchmarks.replay.job import Job, summary_of
from benchmarks.replay.record import record
from benchmarks.replay.recorded import SETTINGS, trace_path
from benchmarks.report import Circumstances, Report, argument_parser, conclude
from engine_model.engine import EngineError
from replay.setting import Setting
from routing.strategies import NAMES

PACKAGES = ("numpy", "msgspec")
CHANGES = (
    *("workers", "blocks", "worker_speeds", "speed", "poisson_per_s", "users", "skip", "limit", "timing"),
    *("rate_error", "event_lag_s", "event_loss", "load_tokens_per_s", "load_price"),
)
"""Parts of a setting that options can change."""


def run(options: argparse.Namespace) -> Report:
    """Raises ``OSError`` or ``ValueError`` for a bad trace or setting, ``EngineError`` where a prompt does not fit."""
    if options.seeds < 1 or options.processes < 1:
        raise ValueError("--seeds and --processes must be at least 1")
    seeds = range(options.seed, options.seed + options.seeds)
    circumstances = Circumstances.observe(seed=options.seed, packages=PACKAGES)
    report = Report("replay", "Strategies on recorded traffic, in virtual time", circumstances)
    report.notes.append(
        f"Median (lowest – highest) over seeds {seeds[0]} to {seeds[-1]}. Time is virtual: no machine matters."
    )
    bench = Bench(seeds, options.processes)
    if options.trace is None:
        record(bench, report)
        return report
    setting = setting_of(options)
    bench.compare(setting, options.strategies, report)
    if options.capacity_search:
        bench.search_speeds(setting, options.strategies, report)
    return report


def run_one(options: argparse.Namespace) -> int:
    """One replay, its summary as one JSON object on the standard output; returns the exit status."""
    try:
        job = _the_one(options)
        summary = summary_of(job)
    except (OSError, ValueError, EngineError) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    print(json.dumps({"strategy": job.strategy, "seed": job.seed, **dataclasses.asdict(summary)}))
    return 0


def _the_one(options: argparse.Namespace) -> Job:
    if options.trace is None or len(options.strategies) != 1:
        raise ValueError("--json takes one --trace and one --strategy")
    return Job(setting_of(options), options.strategies[0], options.seed)


def setting_of(options: argparse.Namespace) -> Setting:
    """The setting of the trace, as it is for the record or else a plain one, with what the options say otherwise.

    Raises:
        ValueError: there can be no such setting.
    """
    known = [setting for setting in SETTINGS if setting.trace == options.trace]
    setting = known[0] if known else Setting(options.trace.name, options.trace, 8, 5712)
    given = {name: getattr(options, name) for name in CHANGES}
    changed = dataclasses.replace(setting, **{name: value for name, value in given.items() if value is not None})
    if options.host_tier is None:
        return changed
    return dataclasses.replace(changed, host_blocks=round(options.host_tier * changed.blocks))


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("replay", __doc__)
    parser.add_argument(
        "--trace", type=trace_path, help="a shipped one by name, or a file; default: all, for the record"
    )
    parser.add_argument("--workers", type=int)
    parser.add_argument("--blocks", type=int, help="KV cache of a worker, in blocks of the trace")
    add_speeds(parser)
    parser.add_argument("--speed", type=float, help="how many times as fast as recorded")
    parser.add_argument("--poisson-per-s", type=float, help="requests per second at random, instead of recorded times")
    parser.add_argument("--users", type=int, help="of a closed loop")
    parser.add_argument("--skip", type=int, help="requests, or sessions, to leave out at the beginning")
    parser.add_argument("--limit", type=int, help="how many of the others to replay")
    parser.add_argument("--timing", choices=("fifo", "chunked"), help="how the engines work; default: fifo")
    parser.add_argument("--rate-error", type=float, help="times the real rate of prefill that is believed at first")
    parser.add_argument("--event-lag", type=float, dest="event_lag_s", help="seconds that KV events come late")
    parser.add_argument("--event-loss", type=float, help="share of their batches that is lost and replayed later")
    parser.add_argument("--host-tier", type=float, help="host tier of a worker, as a multiple of its KV cache")
    parser.add_argument("--load-tokens-per-s", type=float, help="speed of loads from the host tier")
    parser.add_argument(
        "--load-price", type=float, help="share of computing that loading is believed to take at first, 0 to 1"
    )
    parser.add_argument(
        "--strategy",
        "--strategies",
        dest="strategies",
        type=strategy_names,
        default=list(NAMES),
        help=f"names with commas between: {', '.join(ENTRANTS)}",
    )
    parser.add_argument(
        "--capacity-search", action="store_true", help="of a trace with recorded times, find the highest speed"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many, from --seed on")
    parser.add_argument("--processes", type=int, default=1, help="replays at a time")
    parser.add_argument("--json", action="store_true", help="one replay, its summary as JSON, and no report")
    return parser.parse_args(arguments)


def add_speeds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--speeds",
        dest="worker_speeds",
        type=numbers,
        metavar="SPEED,...",
        help="factors of the speed of each worker's engine, in turn over the workers; default: all are equally fast",
    )


def numbers(text: str) -> tuple[float, ...]:
    """Return the numbers of an option, with commas between. Raises ``ValueError`` where one is not a number."""
    return tuple(float(number) for number in text.split(","))


def strategy_names(text: str) -> list[str]:
    """Return the names of an option, with commas between. Raises ``ArgumentTypeError`` for an unknown one."""
    names = text.split(",")
    unknown = [name for name in names if name not in ENTRANTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no strategy {unknown[0]!r}; there are {', '.join(ENTRANTS)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.json:
        return run_one(options)
    return conclude(
        "replay", lambda: run(options), results=options.results, cannot_run=(OSError, ValueError, EngineError)
    )
